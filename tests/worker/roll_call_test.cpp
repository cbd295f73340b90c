#include "worker/roll_call.hpp"

#include "tests/support/catch.hpp"
#include "tests/worker/client_of.hpp"

using namespace ddprun::worker;
using ddprun::tests::client_of;
using ddprun::tests::patience;
using ddprun::tests::served_store;

TEST_CASE("a roll call names the ranks that have not come", "[roll_call]") {
  served_store store;
  const auto client = client_of(store);
  roll_call second(client, "here", 1, 4);
  CHECK(second.answer(patience));
  CHECK(second.missing(patience) == "ranks 0, 2 and 3 have not come");
  CHECK(roll_call(client, "here", 0, 4).answer(patience));
  CHECK(roll_call(client, "here", 3, 4).answer(patience));
  CHECK(second.missing(patience) == "rank 2 has not come");
  // An answer at another place does not count.
  CHECK(roll_call(client, "there", 2, 4).answer(patience));
  CHECK(second.missing(patience) == "rank 2 has not come");
  CHECK(roll_call(client, "here", 2, 4).answer(patience));
  CHECK(second.missing(patience) == "");
}

TEST_CASE("only the first ranks that ask get the list of ranks", "[roll_call]") {
  served_store store;
  const auto client = client_of(store);
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    roll_call one(client, "here", rank, 30);
    CHECK(one.answer(patience));
  }
  for (std::uint32_t rank = 0; rank < 20; ++rank) {
    const auto told = roll_call(client, "here", rank, 30).missing(patience);
    CHECK(told == (rank < 8 ? "ranks 20 to 29 have not come" : "10 of 30 ranks have not come"));
  }
}

TEST_CASE("a roll call returns nothing if the store is gone", "[roll_call]") {
  auto store = std::make_unique<served_store>();
  const auto client = client_of(*store);
  roll_call one(client, "here", 0, 2);
  store.reset();
  CHECK_FALSE(one.answer(patience));
  CHECK_FALSE(one.missing(patience).has_value());
}
