#include "launcher/hosts/doctor/doctor_hosts.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>

using namespace ddprun::launcher::doctor;

namespace {

using words = std::vector<std::string>;

// The words before the program, and those after it.
std::pair<words, words> sides_of(const words& given) {
  const auto job = words_for_hosts(given);
  REQUIRE(job);
  const auto program = std::find(job->begin(), job->end(), "--log-line-prefix-template=${}");
  const auto name = std::find(program, job->end(), "doctor");
  REQUIRE(name != job->end());
  return {{job->begin(), program}, {name + 1, job->end()}};
}

}  // namespace

TEST_CASE("a doctor of several hosts is a job: its own options go along, the others stay") {
  const auto [job, own] = sides_of({"doctor", "-H", "a:4,b", "--shared", "/data", "--json",
                                    "--ssh-user=me", "--wait=5", "-p", "22", "--bandwidth"});
  CHECK(job == words{"-H", "a:4,b", "--ssh-user=me", "-p", "22", "--master-port=29357"});
  CHECK(own == words{"--shared", "/data", "--json", "--wait=5", "--bandwidth"});
  CHECK(sides_of({"doctor", "--hostfile=f", "--master-port", "7000"}).first ==
        words{"--hostfile=f", "--master-port", "7000"});
}

TEST_CASE("what names no hosts is no job") {
  CHECK(!words_for_hosts({}));
  CHECK(!words_for_hosts({"doctor"}));
  CHECK(!words_for_hosts({"doctor", "--nnodes", "2"}));
  CHECK(!words_for_hosts({"doctor", "-H", "a", "--help"}));
  CHECK(!words_for_hosts({"-H", "a,b", "doctor"}));
}
