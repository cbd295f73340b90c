// What can still be read of a refused command line.
#include "launcher/cli/options.hpp"
#include "tests/launcher/cli/parsed_options.hpp"

#include <string>

using ddprun::environment_map;
using ddprun::tests::usage_error_of;
using ddprun::tests::words;

// The node needs this to tell the other nodes of its run.
TEST_CASE("of a refused command line it is read where its run meets") {
  using ddprun::launcher::meeting_of_refused;
  const auto meeting = [](const std::string& line, const environment_map& environment = {}) {
    INFO("ddprun " << line);
    CHECK_FALSE(usage_error_of(line, environment).empty());
    return meeting_of_refused(words(line), environment);
  };
  const std::string good = " --nnodes=3 --rdzv-endpoint=h:5 --rdzv_id job --node-id=c";
  for (const std::string& line :
       {"--no-such" + good + " a.py", "--no-such value" + good + " a.py",
        "--nproc-per-node=x" + good, good + " -x", good + " --max-restarts", good}) {
    const auto found = meeting(line);
    REQUIRE(found);
    CHECK(found->endpoint.host == "h");
    CHECK(found->endpoint.port == 5);
    CHECK(found->run_id == "job");
    CHECK(found->node_id == "c");
    CHECK(found->settings.nodes_max == 3);
  }
  const auto fixed =
      meeting("--nnodes=2 --node-rank=1 --master-addr=h --master-port=5 --oops a.py");
  REQUIRE(fixed);
  CHECK(fixed->is_static);
  CHECK(fixed->endpoint.port == 5);
  const auto by_environment =
      meeting("--oops a.py", {{"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "h:5"}});
  REQUIRE(by_environment);
  CHECK(by_environment->endpoint.host == "h");
  CHECK_FALSE(meeting("--nnodes=2 a.py"));
  CHECK_FALSE(meeting("--nnodes=2 --rdzv-endpoint=h:x a.py"));
  // A script's own options are not ours.
  const auto alone = meeting("--oops a.py x --nnodes=2 --rdzv-endpoint=h:5");
  REQUIRE(alone);
  CHECK(alone->standalone);
}
