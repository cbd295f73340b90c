#include "rendezvous/base/rank_text.hpp"

#include "tests/support/catch.hpp"

#include <cstdint>
#include <vector>

using namespace ddprun;

TEST_CASE("ranks are listed as people write them") {
  CHECK(text_of_ranks({3}) == "rank 3");
  CHECK(text_of_ranks({3, 4}) == "ranks 3 and 4");
  CHECK(text_of_ranks({0, 2}) == "ranks 0 and 2");
  CHECK(text_of_ranks({0, 2, 3, 4, 9}) == "ranks 0, 2 to 4 and 9");
  std::vector<std::uint32_t> even;
  for (std::uint32_t rank = 0; rank < 200; rank += 2)
    even.push_back(rank);
  CHECK(text_of_ranks(even) == "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 90 more");
}
