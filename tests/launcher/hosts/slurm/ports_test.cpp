// The ports on which the agents of one step look for each other.
#include "launcher/hosts/slurm/ports.hpp"

#include "tests/support/catch.hpp"

#include <set>

namespace ddprun::launcher::slurm {

TEST_CASE("a step has four different ports above those that Linux hands out") {
  for (const std::uint64_t job : {0ULL, 1ULL, 12ULL, 4095ULL, 4096ULL, 67'108'863ULL, ~0ULL}) {
    for (const std::uint64_t step : {0ULL, 1ULL, 4095ULL, ~0ULL}) {
      const auto ports = meeting_ports(job, step);
      CHECK(std::set<std::uint16_t>(ports.begin(), ports.end()).size() == meeting_ports_count);
      for (const std::uint16_t port : ports)
        CHECK(port >= 61'440);
    }
  }
  CHECK(meeting_ports(12, 0) == std::vector<std::uint16_t>{61'452, 62'817, 64'182, 61'451});
}

TEST_CASE("jobs that follow each other and steps of one job begin at different ports") {
  std::set<std::uint16_t> of_jobs;
  std::set<std::uint16_t> of_steps;
  for (std::uint64_t number = 0; number < 4'096; ++number) {
    of_jobs.insert(meeting_ports(1'000'000 + number, 0).front());
    of_steps.insert(meeting_ports(12, number).front());
  }
  CHECK(of_jobs.size() == 4'096);
  CHECK(of_steps.size() == 4'096);
}

}  // namespace ddprun::launcher::slurm
