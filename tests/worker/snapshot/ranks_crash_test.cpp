// Two ranks, each with a disk of its own that fails at any of its steps, or from there on. Both
// must find what was reported saved, and both must report the same for each snapshot. It is tested
// with a disk that is always current, and on NFS, where each rank is on the other machine in the
// next round.
#include "tests/support/catch.hpp"
#include "tests/support/effort.hpp"
#include "tests/worker/snapshot/two_ranks.hpp"

#include <array>

namespace ddprun::tests {
namespace {

// The steps of a rank in a round that follows a successful one.
std::size_t steps_of_a_ranks_life(std::uint32_t rank, shared_by how, std::uint32_t writers) {
  two_ranks test(how, writers);
  test.live(1);
  const std::size_t before = test.views[rank].steps();
  test.live(2);
  return test.views[rank].steps() - before;
}

}  // namespace

TEST_CASE("on NFS a restart finds the newest snapshot from any machine", "[snapshot]") {
  two_ranks test(GENERATE(shared_by::nfs, shared_by::nfs_with_nocto), GENERATE(1u, 2u));
  for (const round_number round : {1, 2, 3, 4}) {
    auto job = test.open(round);
    INFO(job[0].problem << "; " << job[1].problem);
    REQUIRE(two_ranks::is_open(job));
    for (std::uint32_t rank = 0; rank < two_ranks::ranks; ++rank) {
      const auto& found = job[rank].job->resumed();
      REQUIRE(found.has_value() == (round > 1));
      if (round > 1) CHECK(small_state(10 * (round - 1), rank).compare(*found) == "");
    }
    CHECK(save(job, 10 * round) == all(two_ranks::ranks));
  }
  CHECK(test.messages.text() == "");
}

TEST_CASE("an error of any step of either rank costs no earlier snapshot", "[snapshot]") {
  const auto [how, writers] =
      GENERATE(std::pair(shared_by::one_disk, 1u), std::pair(shared_by::one_disk, 2u),
               std::pair(shared_by::nfs, 1u), std::pair(shared_by::nfs, 2u),
               std::pair(shared_by::nfs_with_nocto, 1u));
  for (std::uint32_t rank = 0; rank < two_ranks::ranks; ++rank) {
    const std::size_t steps = steps_of_a_ranks_life(rank, how, writers);
    REQUIRE(steps > 15);
    const std::array counts = {std::size_t{1}, std::size_t{3}, ~std::size_t{0}};
    for (const std::uint64_t number : cases_to_take(steps * counts.size(), 24)) {
      const std::uint64_t at = number / counts.size();
      const std::size_t count = counts[number % counts.size()];
      INFO("shared by " << static_cast<int>(how) << ", writers " << writers << ", rank " << rank
                        << ", step " << at << " of " << steps << ", fails " << count);
      two_ranks test(how, writers);
      test.live(1);
      REQUIRE(test.reported == 30);
      test.views[rank].fail(test.views[rank].steps() + at, count);
      test.live(2, count == 3);
      const std::string wrong = test.check(3);
      INFO(test.messages.text());
      REQUIRE(wrong == "");
    }
  }
}

}  // namespace ddprun::tests
