#include "rendezvous/net/threads.hpp"

#include "tests/support/catch.hpp"

#include <cerrno>

using namespace ddprun;

TEST_CASE("a thread that cannot be started names the limit that it met") {
  const auto [number, cure] = GENERATE(table<int, const char*>({
      {EAGAIN, "(ulimit -u) or container (pids.max)"},
      {EMFILE, "open files (ulimit -n)"},
      {ENFILE, "open files (ulimit -n)"},
      {ENOMEM, "short of memory"},
  }));
  const error_code error(number, boost::system::system_category());
  const std::string line = net::thread_problem("the job store", error);
  CHECK(line.starts_with("cannot start a thread for the job store: " + error.message() + "; "));
  CHECK(line.find(cure) != std::string::npos);
}
