// A snapshot that leads to nothing is not gone on from for ever.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/folder_under_test.hpp"

namespace ddprun::tests {

TEST_CASE("a snapshot that leads to nothing twice is distrusted", "[snapshot]") {
  folder_under_test test;
  {
    auto kept = test.open(1);
    REQUIRE_FALSE(save(kept, 10));
    REQUIRE_FALSE(save(kept, 20));
  }
  const auto resumed_step = [&](round_number round) {
    return test.open(round)->resumed()->info.step;
  };
  CHECK(resumed_step(2) == 20);  // and it ends, as by a crash
  CHECK(resumed_step(3) == 20);
  CHECK(test.messages.text() == "");
  CHECK(resumed_step(4) == 10);
  CHECK(
      test.messages.all() ==
      std::vector<std::string>{"snapshot f/snapshot-000001-000020 is distrusted: 2 jobs have gone "
                               "on from it and ended before they came far"});
  // What goes on from the one before it, and saves, is the newest then.
  auto kept = test.open(5);
  REQUIRE_FALSE(save(kept, 15));
  CHECK(test.next_step() == 15);
}

TEST_CASE("a snapshot is trusted again once a job has come far from it", "[snapshot]") {
  enum class way { progress, save, close };
  for (const way how : {way::progress, way::save, way::close}) {
    folder_under_test test;
    REQUIRE_FALSE(save(test.open(1), 10));
    test.open(2);
    {
      auto kept = test.open(3);
      REQUIRE(kept->resumed()->info.step == 10);
      if (how == way::progress) {
        CHECK_FALSE(kept->progress(19));
        CHECK(test.files.exists("f/snapshot-000001-000010/resumed-000003"));
        CHECK_FALSE(kept->progress(20));
        CHECK_FALSE(kept->wait());
      } else if (how == way::save) {
        REQUIRE_FALSE(save(kept, 11));
        REQUIRE_FALSE(kept->wait());
      } else {
        REQUIRE_FALSE(kept->close());
      }
    }
    CHECK(!test.files.exists("f/snapshot-000001-000010/resumed-000003"));
    CHECK(!test.files.exists("f/snapshot-000001-000010/resumed-000002"));
    CHECK(test.messages.text() == "");
  }
}

TEST_CASE("where all snapshots are distrusted the newest is taken again", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(save(test.open(1), 10));
  for (const round_number round : {2, 3, 4, 5})
    CHECK(test.open(round)->resumed()->info.step == 10);
  CHECK(test.messages.last() == "no other snapshot in f: f/snapshot-000001-000010 is taken again");
}

TEST_CASE("a round that ended for a node's sake says nothing against a snapshot", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(save(test.open(1), 10));
  REQUIRE_FALSE(save(test.open(2), 20));
  const auto resumed_step = [&](round_number round, std::uint32_t restarts) {
    test.restart_count = restarts;
    return test.open(round)->resumed()->info.step;
  };
  for (const round_number round : {3, 4, 5, 6})
    CHECK(resumed_step(round, 2) == 20);
  CHECK(resumed_step(7, 3) == 20);  // the first that has failed
  CHECK(resumed_step(8, 3) == 20);
  CHECK(resumed_step(9, 4) == 10);  // the second
}

TEST_CASE("snapshots that no job goes on from do not take the place of others", "[snapshot]") {
  folder_under_test test;
  test.keep = 2;
  {
    auto first = test.open(1);
    REQUIRE_FALSE(save(first, 10));
    REQUIRE_FALSE(save(first, 20));
  }
  test.files.bytes("f/snapshot-000001-000020/rank-00000.safetensors").back() ^= 1;
  auto second = test.open(2);
  CHECK(second->resumed()->info.step == 10);
  REQUIRE_FALSE(save(second, 30));
  CHECK(test.files.exists("f/snapshot-000001-000010/manifest.json"));
  CHECK(test.files.exists("f/snapshot-000001-000020/manifest.json"));
  REQUIRE_FALSE(save(second, 40));
  CHECK(!test.files.exists("f/snapshot-000001-000010"));
  CHECK(!test.files.exists("f/snapshot-000001-000020"));
  CHECK(test.files.exists("f/snapshot-000002-000030/manifest.json"));
}

}  // namespace ddprun::tests
