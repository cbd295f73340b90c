// libpmix runs in a child process, whatever it does there.
#include "launcher/hosts/mpi/pmix.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <filesystem>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher::hosts::mpi {
namespace {

using namespace std::chrono_literals;

deadline in_a_while(std::chrono::milliseconds time = 120s) {
  return std::chrono::steady_clock::now() + time;
}

bool has_no_child() {
  siginfo_t ended = {};
  return ::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0;
}

}  // namespace

TEST_CASE("mpi: what is asked in a child comes home, and so does an error") {
  const auto answer = ask_in_child([] { return good(std::string(100'000, 'x')); }, in_a_while());
  REQUIRE(answer.has_value());
  CHECK(*answer == std::string(100'000, 'x'));
  const auto error = ask_in_child(
      []() -> cli::parsed<std::string> { return cli::usage_error{"not today"}; }, in_a_while());
  REQUIRE(error.has_error());
  CHECK(error.error().text == "not today");
  CHECK(has_no_child());
}

TEST_CASE("mpi: a library that ends its process, or never answers, ends the child only") {
  const auto killed = ask_in_child(
      []() -> cli::parsed<std::string> {
        ::raise(SIGKILL);
        return good({});
      },
      in_a_while());
  REQUIRE(killed.has_error());
  CHECK(killed.error().text == "its libpmix has ended the process that used it by signal 9");
  const auto stalled = ask_in_child(
      []() -> cli::parsed<std::string> {
        for (;;)
          ::pause();
      },
      in_a_while(20ms));
  REQUIRE(stalled.has_error());
  CHECK(stalled.error().text ==
        "some of its processes did not reach its PMIx, or that did not answer, in time");
  CHECK(has_no_child());
}

TEST_CASE("mpi: the libpmix of the launcher's own process is tried first") {
  tests::temporary_folder proc;
  std::filesystem::create_directory(proc.path + "/12");
  proc.file("12/maps",
            "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n"
            "7f02-7f03 r--p 00000000 08:01 13 /opt/mpi 5/lib/libpmix.so.2.13.9\n"
            "7f03-7f04 r-xp 00001000 08:01 13 /opt/mpi 5/lib/libpmix.so.2.13.9\n",
            0600);
  CHECK(pmix_library_places({{"PMIX_PREFIX", "/opt/x"}}, {{11, "sh", {}}, {12, "prted", {}}},
                            proc.path) ==
        std::vector<std::string>{"/opt/mpi 5/lib/libpmix.so.2.13.9", "/opt/x/lib/libpmix.so.2",
                                 "/opt/x/lib/openmpi/libpmix.so.2", "/opt/x/lib64/libpmix.so.2",
                                 "libpmix.so.2"});
}

TEST_CASE("mpi: without a libpmix there is nothing, and no error") {
  const auto none = meet_by_pmix({"/no/such/libpmix.so.2"}, 0, 2, {}, in_a_while());
  REQUIRE(none.has_value());
  CHECK_FALSE(*none);
}

TEST_CASE("mpi: a library that is no libpmix is refused") {
  const auto wrong = meet_by_pmix({"libm.so.6"}, 0, 2, {}, in_a_while());
  REQUIRE(wrong.has_error());
  CHECK(wrong.error().text == "its libpmix is unusable: functions are missing");
}

}  // namespace ddprun::launcher::hosts::mpi
