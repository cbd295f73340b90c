// A snapshot after which jobs keep failing is not resumed from forever.
#include "tests/support/catch.hpp"
#include "tests/worker/snapshot/folder_under_test.hpp"

namespace ddprun::tests {
namespace {

// Saves as a program does that reports its progress.
error_code train_and_save(const open_snapshots& to, std::uint64_t step) {
  if (auto error = to->progress(step)) return error;
  return save(to, step);
}

const std::string failed_once =
    "snapshot f/snapshot-000001-000020: a job has resumed from it and failed within 10 steps; if "
    "this one does too, the one before it is taken";

}  // namespace

TEST_CASE("ordinary failures between two saves cost no snapshot", "[snapshot]") {
  const bool tells_progress = GENERATE(true, false);
  folder_under_test test;
  {
    auto kept = test.open(1);
    for (const std::uint64_t step : {1000, 2000})
      REQUIRE_FALSE((tells_progress ? train_and_save(kept, step) : save(kept, step)));
  }
  for (const round_number round : {2, 3, 4, 5}) {
    auto kept = test.open(round);
    REQUIRE(kept->resumed()->info.step == 2000);
    if (!tells_progress) continue;
    for (const std::uint64_t step : {2001, 2900})
      REQUIRE_FALSE(kept->progress(step));
    REQUIRE_FALSE(kept->wait());
  }
  CHECK(test.messages.text() == "");
}

TEST_CASE("failures of another run say nothing against a snapshot", "[snapshot]") {
  // Under torchrun every run has instance 0, and counts restarts from 0.
  const instance_id instance = GENERATE(as<instance_id>(), 0, 77);
  folder_under_test test;
  REQUIRE_FALSE(train_and_save(test.open(1, instance), 10));
  REQUIRE_FALSE(train_and_save(test.open(2, instance), 20));
  const auto resumed_step = [&](instance_id of, std::uint32_t restarts) {
    test.restart_count = restarts;
    return test.open(restarts + 1, of)->resumed()->info.step;
  };
  CHECK(resumed_step(instance, 2) == 20);
  CHECK(resumed_step(instance, 3) == 20);
  const instance_id next = instance == 0 ? 0 : 78;
  for (const std::uint32_t restarts : {0, 1})
    CHECK(resumed_step(next, restarts) == 20);
  CHECK(resumed_step(next, 2) == 10);
}

TEST_CASE("where nothing is to be distrusted the newest is taken each time", "[snapshot]") {
  folder_under_test test;
  test.distrust = false;
  REQUIRE_FALSE(train_and_save(test.open(1), 10));
  REQUIRE_FALSE(train_and_save(test.open(2), 20));
  for (const round_number round : {3, 4, 5, 6})
    CHECK(test.open(round)->resumed()->info.step == 20);
  CHECK(test.messages.text() == "");
}

TEST_CASE("a rank that distrusts a snapshot does not remove it", "[snapshot]") {
  folder_under_test test;
  test.keep = 1;
  {
    auto first = test.open(1);
    REQUIRE_FALSE(train_and_save(first, 10));
    test.keep = 2;
  }
  REQUIRE_FALSE(train_and_save(test.open(2), 20));
  for (const round_number round : {3, 4})
    CHECK(test.open(round)->resumed()->info.step == 20);
  test.keep = 1;
  {
    auto kept = test.open(5);
    CHECK(kept->resumed()->info.step == 10);
    for (const std::uint64_t step : {30, 40, 50})
      REQUIRE_FALSE(train_and_save(kept, step));
    CHECK(!test.files.exists("f/snapshot-000001-000010"));
    CHECK(test.files.exists("f/snapshot-000002-000020/manifest.json"));
  }
  // The next job treats it as any other snapshot.
  auto kept = test.open(6);
  CHECK(kept->resumed()->info.step == 50);
  REQUIRE_FALSE(train_and_save(kept, 60));
  CHECK(!test.files.exists("f/snapshot-000002-000020"));
}

TEST_CASE("a snapshot that leads to nothing twice is distrusted", "[snapshot]") {
  folder_under_test test;
  {
    auto kept = test.open(1);
    REQUIRE_FALSE(train_and_save(kept, 10));
    REQUIRE_FALSE(train_and_save(kept, 20));
  }
  const auto resumed_step = [&](round_number round) {
    return test.open(round)->resumed()->info.step;
  };
  CHECK(resumed_step(2) == 20);  // the job then ends without progress, as in a crash
  CHECK(test.messages.text() == "");
  CHECK(resumed_step(3) == 20);
  CHECK(resumed_step(4) == 10);
  CHECK(test.messages.all() ==
        std::vector<std::string>{
            failed_once,
            "snapshot f/snapshot-000001-000020 is distrusted, because 2 jobs have resumed from it "
            "and failed within 10 steps: resuming from f/snapshot-000001-000010, 10 steps before "
            "it"});
  // A job that resumes from the one before it and saves has the newest snapshot.
  auto kept = test.open(5);
  REQUIRE_FALSE(train_and_save(kept, 15));
  CHECK(test.next_step() == 15);
}

TEST_CASE("a snapshot is trusted again once a job has come far from it", "[snapshot]") {
  enum class way { progress, save, close };
  for (const way how : {way::progress, way::save, way::close}) {
    folder_under_test test;
    REQUIRE_FALSE(train_and_save(test.open(1), 10));
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
    CHECK(test.messages.all().size() == 1);  // only that one job has failed
  }
}

TEST_CASE("where all snapshots are distrusted the newest is taken again", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(train_and_save(test.open(1), 10));
  for (const round_number round : {2, 3, 4, 5})
    CHECK(test.open(round)->resumed()->info.step == 10);
  CHECK(test.messages.last() ==
        "snapshot f/snapshot-000001-000010 is taken again, though 3 jobs have resumed from it and "
        "failed within 10 steps: there is no other");
}

TEST_CASE("a round that ended for a node's sake says nothing against a snapshot", "[snapshot]") {
  folder_under_test test;
  REQUIRE_FALSE(train_and_save(test.open(1), 10));
  REQUIRE_FALSE(train_and_save(test.open(2), 20));
  const auto resumed_step = [&](round_number round, std::uint32_t restarts) {
    test.restart_count = restarts;
    return test.open(round)->resumed()->info.step;
  };
  for (const round_number round : {3, 4, 5, 6})
    CHECK(resumed_step(round, 2) == 20);
  CHECK(resumed_step(7, 3) == 20);  // the first job that has failed
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
