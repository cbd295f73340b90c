#include "launcher/process/hook_queue.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;

TEST_CASE("a hook's queue keeps order, and counts what has no room") {
  hook_queue queue(2);
  CHECK(queue.empty());
  CHECK_FALSE(queue.next());
  for (const char* what : {"a", "b", "c", "d"})
    queue.offer({what, ""});
  CHECK(queue.take_left_out() == 2);
  CHECK(queue.take_left_out() == 0);
  CHECK(queue.next()->what == "a");
  queue.offer({"e", ""});
  CHECK(queue.next()->what == "b");
  CHECK(queue.next()->what == "e");
  queue.offer({"f", ""});
  queue.clear();
  CHECK(queue.empty());
  CHECK(queue.take_left_out() == 1);
}
