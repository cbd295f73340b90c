#include "rendezvous/core/messages/stall.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <vector>

using namespace ddprun;
using ranks = std::vector<stalled_ranks>;

namespace {

const std::string all_reduce = "waited in all_reduce, step (train.py:41)";
const std::string in_forward = "stood in forward (train.py:88)";

stalled_ranks waiting(std::uint32_t first, std::uint32_t last) {
  return {first, last, stall_kind::waits, all_reduce};
}
stalled_ranks elsewhere(std::uint32_t rank) {
  return {rank, rank, stall_kind::elsewhere, in_forward};
}
stalled_ranks unseen(std::uint32_t rank) {
  return {rank, rank, stall_kind::unseen, "gave no stack (state S)"};
}
stalled_ranks stopped(std::uint32_t rank) {
  return {rank, rank, stall_kind::stopped, "had been stopped (state T)"};
}

constexpr stall_scope whole{true, false};
constexpr stall_scope part{false, false};
constexpr stall_scope learnt{true, true};

}  // namespace

TEST_CASE("of ranks that stand still the first is named that is in no collective") {
  CHECK(rank_that_hangs({waiting(0, 3), elsewhere(5), waiting(6, 7), elsewhere(4)}, whole) == 4U);
  CHECK(rank_that_hangs({waiting(0, 3), elsewhere(4)}, part) == 4U);
  CHECK(rank_that_hangs({waiting(0, 3), elsewhere(4)}, learnt) == 4U);
}

TEST_CASE("where a rank cannot be seen only a stopped rank is named") {
  CHECK_FALSE(rank_that_hangs({waiting(0, 1), elsewhere(2), unseen(3)}, whole));
  CHECK_FALSE(rank_that_hangs({waiting(0, 1), unseen(3)}, whole));
  CHECK(rank_that_hangs({waiting(0, 1), unseen(3), stopped(9), stopped(8)}, part) == 8U);
  CHECK_FALSE(rank_that_hangs({}, whole));
}

TEST_CASE("where all wait the fewest that are alike are named, and the first of as many") {
  const ranks alike{waiting(4, 7), waiting(0, 3)};
  CHECK(rank_that_hangs(alike, whole) == 0U);
  CHECK(rank_that_hangs(alike, learnt) == 0U);
  CHECK_FALSE(rank_that_hangs(alike, part));
  CHECK(rank_that_hangs({waiting(0, 5), {6, 7, stall_kind::waits, "waited in barrier"}}, whole) ==
        6U);
}

TEST_CASE("where no rank waits, a rank is named only after a limit that the user has set") {
  const ranks own{elsewhere(0), elsewhere(1), {2, 2, stall_kind::elsewhere, "stood in save"}};
  CHECK(rank_that_hangs(own, whole) == 2U);
  CHECK_FALSE(rank_that_hangs(own, learnt));
  CHECK_FALSE(rank_that_hangs(own, part));
}

TEST_CASE("the ranks of all nodes are told of in one sentence of bounded length") {
  CHECK(sentence_of({waiting(0, 1), waiting(4, 8), elsewhere(3)}) ==
        "rank 3 stood in forward (train.py:88) while 7 ranks waited in all_reduce, step "
        "(train.py:41)");
  CHECK(sentence_of({unseen(0), unseen(1)}).empty());
  CHECK(sentence_of({unseen(0), stopped(1)}) ==
        "rank 0 gave no stack (state S), rank 1 had been stopped (state T)");
  CHECK(sentence_of({unseen(0), waiting(1, 1)}) ==
        "rank 0 gave no stack (state S) while rank 1 waited in all_reduce, step "
        "(train.py:41)");
  ranks many;
  for (std::uint32_t rank = 0; rank < 10'000; ++rank)
    many.push_back({rank, rank, stall_kind::elsewhere, "stood at " + std::to_string(rank)});
  CHECK(sentence_of(many).size() < 200);
}

TEST_CASE("what a node says of its ranks does not grow with them") {
  CHECK(in_short({waiting(0, 0), waiting(1, 1), elsewhere(2), waiting(3, 3)}) ==
        ranks{elsewhere(2), waiting(0, 1), waiting(3, 3)});
  ranks many;
  for (std::uint32_t rank = 0; rank < 100; rank += 2) {
    many.push_back(waiting(rank, rank));
    many.push_back(rank == 98 ? unseen(99) : elsewhere(rank + 1));
    many.back().words += std::string(1000, 'x');
  }
  const ranks told = in_short(many);
  REQUIRE(told.size() == stalled_ranks_max);
  CHECK(told.front().kind == stall_kind::unseen);
  CHECK(told.front().first == 99);
  CHECK(told.front().words.size() <= stall_words_bytes_max);
}

TEST_CASE("of what a node says only its own ranks count") {
  const ranks said{waiting(0, 4'000'000'000), elsewhere(9), elsewhere(5)};
  CHECK(within(said, 4, 2) == ranks{waiting(4, 5), elsewhere(5)});
  CHECK(within(said, 4, 0).empty());
}
