// The options that stop restarts.
#include "tests/launcher/cli/parsed_options.hpp"

#include <chrono>

using namespace std::chrono_literals;
using ddprun::launcher::launch_options;
using ddprun::tests::options_of;
using ddprun::tests::usage_error_of;

TEST_CASE("the options of restarts that know when to stop are read") {
  const launch_options plain = options_of("a.py");
  CHECK(plain.settings.quick_failures_max == 2);
  CHECK(plain.settings.node_failures_max == 0);
  CHECK(plain.settings.timing.startup_window == 10s);
  CHECK(plain.settings.timing.backoff_max == 30s);
  CHECK(plain.settings.timing.restart_window == 0s);
  const launch_options given = options_of(
      "--max-quick-failures=0 --max-node-failures 3 --restart-window=3600 "
      "--rdzv-conf startup_window=2.5,backoff_max=0,restart_window=7 a.py");
  CHECK(given.settings.quick_failures_max == 0);
  CHECK(given.settings.node_failures_max == 3);
  CHECK(given.settings.timing.restart_window == 3600s);
  CHECK(given.settings.timing.startup_window == 2500ms);
  CHECK(given.settings.timing.backoff_max == 0s);
  CHECK(options_of("--restart-window 0 a.py").settings.timing.restart_window == 0s);
  CHECK(options_of("--rdzv-conf restart_window=70 a.py").settings.timing.restart_window == 70s);
}

TEST_CASE("restart options that cannot be read are named") {
  CHECK(usage_error_of("--max-quick-failures=-1 a.py") ==
        "--max-quick-failures=-1: the number of quick failures is a whole number from 0 to "
        "1000000000");
  CHECK(usage_error_of("--max-node-failures=x a.py") ==
        "--max-node-failures=x: the number of failures of a node is a whole number from 0 to "
        "1000000000");
  CHECK(usage_error_of("--restart-window=soon a.py") ==
        "--restart-window=soon: write seconds from 0 to 2592000; fractions are fine");
  // Otherwise the budget would be refilled before a failed start has used it up.
  const std::string shorter =
      " is shorter than startup_window 10 s: failures at the start would never use up "
      "--max-restarts";
  CHECK(usage_error_of("--restart-window=5 a.py") ==
        "--restart-window=5: restart_window 5 s" + shorter);
  CHECK(usage_error_of("--rdzv-conf restart_window=5 a.py") ==
        "--rdzv-conf=restart_window=5: restart_window 5 s" + shorter);
  CHECK(usage_error_of("--restart-window=9.9 --rdzv-conf node_timeout=20 a.py") ==
        "--restart-window=9.9: restart_window 9.9 s" + shorter);
  CHECK(usage_error_of("--restart-window=60 --rdzv-conf startup_window=70 a.py") ==
        "--restart-window=60: restart_window 60 s is shorter than startup_window 70 s: failures at "
        "the start would never use up --max-restarts");
  const auto equal = options_of("--restart-window=5 --rdzv-conf startup_window=5 a.py");
  CHECK(equal.settings.timing.restart_window == 5s);
}
