#include "rendezvous/store/reactor.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::store;
using namespace std::chrono_literals;

namespace {

// A descriptor that the test makes ready, and what happens then.
struct bell final : watcher {
  explicit bell(bool is_ready) : fd(::eventfd(is_ready ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void on_ready(std::uint32_t) override {
    ++rings;
    if (then) then();
  }
  void on_deadline() override {
    ++deadlines;
    if (then) then();
  }

  unique_fd fd;
  int rings = 0;
  int deadlines = 0;
  std::function<void()> then;
};

}  // namespace

TEST_CASE("what several threads post runs, in the order of each, and before a later stop") {
  reactor loop;
  constexpr int each = 2000;
  std::vector<std::vector<int>> seen(4);
  std::vector<std::thread> threads;
  for (std::size_t from = 0; from < seen.size(); ++from) {
    threads.emplace_back([&, from] {
      for (int index = 0; index < each; ++index)
        loop.post([&, from, index] { seen[from].push_back(index); });
    });
  }
  std::thread stopper([&] {
    for (std::thread& one : threads)
      one.join();
    loop.stop();
  });
  loop.run();
  stopper.join();
  for (const auto& one : seen) {
    REQUIRE(one.size() == each);
    CHECK(std::is_sorted(one.begin(), one.end()));
  }
}

TEST_CASE("a watcher is told as long as it is ready, and never after it was removed") {
  reactor loop;
  const auto one = std::make_shared<bell>(true);
  const auto two = std::make_shared<bell>(true);
  // Both are ready in the same call of epoll_wait(), and the first removes the other.
  const auto end_other = [&](bell& other) {
    loop.remove(other.fd.get());
    loop.stop();
  };
  one->then = [&] { end_other(*two); };
  two->then = [&] { end_other(*one); };
  REQUIRE_FALSE(loop.add(one->fd.get(), EPOLLIN, one));
  REQUIRE_FALSE(loop.add(two->fd.get(), EPOLLIN, two));
  loop.run();
  CHECK((one->rings == 0 || two->rings == 0));
  CHECK(one->rings + two->rings >= 1);
}

TEST_CASE("with EPOLLET a watcher is told once for what has come, and anew when it asks") {
  reactor loop;
  const auto once = std::make_shared<bell>(true);
  const auto always = std::make_shared<bell>(true);  // each ring of it is one epoll_wait() for both
  once->then = [&] {
    if (once->rings == 1) loop.change(once->fd.get(), EPOLLIN | EPOLLET);
  };
  always->then = [&] {
    if (always->rings == 10) loop.stop();
  };
  REQUIRE_FALSE(loop.add(once->fd.get(), EPOLLIN | EPOLLET, once));
  REQUIRE_FALSE(loop.add(always->fd.get(), EPOLLIN, always));
  loop.run();
  CHECK(once->rings == 2);
}

TEST_CASE("a watcher that removes itself lives until it has been told") {
  reactor loop;
  auto only = std::make_shared<bell>(true);
  const std::weak_ptr<bell> left = only;
  bool lived = false;
  only->then = [&, fd = only->fd.get()] {
    only.reset();
    loop.remove(fd);
    lived = !left.expired();
    loop.stop();
  };
  REQUIRE_FALSE(loop.add(only->fd.get(), EPOLLIN, only));
  loop.run();
  CHECK(lived);
  CHECK(left.expired());
}

TEST_CASE("an event of a closed descriptor is not taken for one of the next of its number") {
  reactor loop;
  const auto first = std::make_shared<bell>(true);
  auto old = std::make_shared<bell>(true);
  std::shared_ptr<bell> next;
  const auto replace = [&](std::shared_ptr<bell>& gone) {
    const int number = gone->fd.get();
    loop.remove(number);
    gone->fd.reset();
    next = std::make_shared<bell>(false);  // the lowest free number: the same
    REQUIRE(next->fd.get() == number);
    REQUIRE_FALSE(loop.add(number, EPOLLIN, next));
    loop.stop();
  };
  REQUIRE_FALSE(loop.add(first->fd.get(), EPOLLIN, first));
  REQUIRE_FALSE(loop.add(old->fd.get(), EPOLLIN, old));
  first->then = [&] {
    if (!next) replace(old);
  };
  old->then = first->then;  // epoll may report it first; then there is nothing to see
  loop.run();
  CHECK(next->rings == 0);
}

TEST_CASE("a deadline is told once, unless it was replaced or cleared") {
  reactor loop;
  const auto told = std::make_shared<bell>(false);
  const auto cleared = std::make_shared<bell>(false);
  told->then = [&] { loop.stop(); };
  REQUIRE_FALSE(loop.add(told->fd.get(), EPOLLIN, told));
  REQUIRE_FALSE(loop.add(cleared->fd.get(), EPOLLIN, cleared));
  loop.set_deadline(cleared->fd.get(), 1ms);
  loop.clear_deadline(cleared->fd.get());
  loop.set_deadline(told->fd.get(), 1h);
  loop.set_deadline(told->fd.get(), 5ms);
  loop.run();
  CHECK(told->deadlines == 1);
  CHECK(cleared->deadlines == 0);
}
