// What the loop copies beside its next step, and what it does not.
#include "tests/support/catch.hpp"
#include "tests/worker/training/loop_under_test.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>

namespace ddprun::tests {
namespace {

using namespace ddprun::worker;
using namespace std::chrono_literals;

}  // namespace

TEST_CASE("what may be late is not copied by the thread that trains", "[training]") {
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.copies_late = GENERATE(true, false);
  REQUIRE(test.run(work, with).empty());
  CHECK(work.copied_on.size() == 1);
  CHECK(work.copied_on.contains(std::this_thread::get_id()) == !with.copies_late);
}

TEST_CASE("what has changed while it was copied becomes no snapshot", "[training]") {
  const bool is_in_step = GENERATE(true, false);
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.epochs = 1;
  with.save.steps = 2;
  const auto is_written = test.disk.when_synced("/snapshot-000001-000004");
  work.in_step = [&](std::uint64_t step) {
    if (!is_in_step || step != 5) return;
    is_written.wait();
    work.changed = "parameter 'weight'";
  };
  // No step comes after what is saved then.
  work.in_epoch_end = [&](std::uint64_t) { work.changed = "parameter 'weight'"; };
  CHECK(test.run(work, with) ==
        "training loop: the loss has changed parameter 'weight', which a snapshot copied "
        "meanwhile: set copies_late = false");
  test.disk.before_sync = nullptr;
  counting_work again;
  REQUIRE(test.run(again, with).empty());
  REQUIRE(test.told.size() > 2);
  const auto from = "resuming from snapshot " + test.folder + "/snapshot-000001-00000";
  const auto resumed = [&](const std::string& line) { return line.starts_with(from); };
  const auto found = std::find_if(test.told.begin(), test.told.end(), resumed);
  REQUIRE(found != test.told.end());
  CHECK(found->substr(from.size(), 1) == (is_in_step ? "2" : "4"));
  CHECK(again.seen == in_order(1));
}

TEST_CASE("what is copied is let go of before an error leaves the loop", "[training]") {
  const auto grace = GENERATE(0ms, 20s);
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.save.steps = 2;
  with.emergency_grace = grace;
  std::promise<void> is_lost;
  work.before_copy = [lost = is_lost.get_future().share()] { lost.wait(); };
  work.in_step = [&](std::uint64_t step) {
    if (step != 3) return;
    is_lost.set_value();
    throw process_group_error("Connection closed by peer");
  };
  loop_driver loop(lone_rank(1, test.instance), with, work);
  CHECK_THROWS_AS(loop.run(), process_group_error);
  if (grace == 0ms) {
    CHECK(work.looked == std::vector<std::size_t>{1});
  } else {
    CHECK(work.copies == 2);             // of step 2, and of the emergency
    CHECK(work.views == "late whole ");  // what is to be looked at is still that of step 2
  }
}

TEST_CASE("a copy that cannot be looked at becomes no snapshot", "[training]") {
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.epochs = 1;
  with.save.steps = 2;
  work.before_look = [&] {
    if (work.looked.size() == 2) throw std::runtime_error("no such tensor");
  };
  CHECK(test.run(work, with) == "no such tensor");
  CHECK(work.looked.size() == 2);
  counting_work again;
  REQUIRE(test.run(again, with).empty());
  REQUIRE(test.told.size() > 2);
  CHECK(test.told[2] == "resuming from snapshot " + test.folder +
                            "/snapshot-000001-000002 at epoch 1, in its middle");
}

// Of a data set without samples an epoch's end is all that there is.
TEST_CASE("an epoch's end waits for the copy of the one before", "[training]") {
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.samples = 0;
  with.epochs = 2;
  std::vector<std::size_t> looks;
  work.in_epoch_end = [&](std::uint64_t) { looks.push_back(work.looked.size()); };
  CHECK(test.run(work, with).empty());
  CHECK(looks == std::vector<std::size_t>{0, 1});
}

TEST_CASE("what cannot be put back is no emergency snapshot", "[training]") {
  const bool is_error = GENERATE(true, false);
  loop_under_test test;
  counting_work work;
  auto with = test.looping();
  with.save.epochs = 0;
  if (!is_error) work.not_put_back = "parameter 'weight'";
  work.in_step = [&](std::uint64_t step) {
    if (step == 3) throw process_group_error("Connection closed by peer");
  };
  // It is taken when the state is fetched.
  if (is_error) {
    work.before_view = [] {
      throw std::runtime_error("no such tensor\nException raised from view\nframe #0");
    };
  }
  CHECK(test.run(work, with) == "Connection closed by peer");
  CHECK(test.messages.last() ==
        std::string("no emergency snapshot of step 2: ") +
            (is_error ? "no such tensor"
                      : "what came after it, and was not finished, has changed parameter "
                        "'weight', and that is not put back"));
  counting_work again;
  REQUIRE(test.run(again, with).empty());
  CHECK(again.seen == in_order(3));
}

}  // namespace ddprun::tests
