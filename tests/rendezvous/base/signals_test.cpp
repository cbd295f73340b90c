#include "rendezvous/base/signals.hpp"

#include "tests/support/catch.hpp"

#include <csignal>
#include <cstring>
#include <string>

TEST_CASE("signals have the names that this system's glibc gives them") {
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* const name = ::sigabbrev_np(number);
    const std::string expected =
        name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
    CHECK(ddprun::signal_name(number) == expected);
  }
  CHECK(ddprun::signal_name(SIGRTMIN + 1) == "signal " + std::to_string(SIGRTMIN + 1));
  CHECK(ddprun::signal_name(0) == "signal 0");
}
