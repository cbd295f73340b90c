#include "launcher/base/begun_task.hpp"

#include "tests/support/catch.hpp"

#include <future>
#include <memory>
#include <stdexcept>

using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

// Work that ends when the test says so.
struct gate {
  std::promise<void> opened;

  auto work() {
    return [wait = opened.get_future().share()] {
      wait.wait();
      return 7;
    };
  }
};

}  // namespace

TEST_CASE("work that hangs is left behind, and other work gives its answer") {
  gate hangs;
  CHECK_FALSE(within(1ms, hangs.work()));
  hangs.opened.set_value();
  CHECK(within(1h, [] { return 7; }) == 7);
  CHECK_THROWS_AS(within(1h, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST_CASE("a task that has begun is asked later, and its answer is taken once") {
  gate slow;
  begun_task<int> task(1h, slow.work());
  CHECK_FALSE(task.take(false));
  CHECK_FALSE(task.is_over());
  slow.opened.set_value();
  CHECK(task.take(true) == 7);
  CHECK(task.is_over());
  CHECK_FALSE(task.take(true));
}

TEST_CASE("a task that is late is over, asked or not") {
  gate hangs;
  begun_task<int> task(1ms, hangs.work());
  CHECK_FALSE(task.take(true));
  CHECK(task.is_over());
  begun_task<int> unasked(0ms, [] { return 7; });
  while (!unasked.is_over())
    unasked.take(false);
  hangs.opened.set_value();
}
