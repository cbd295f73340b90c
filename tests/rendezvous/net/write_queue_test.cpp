#include "rendezvous/net/write_queue.hpp"

#include "tests/support/catch.hpp"

#include <string>

using ddprun::net::write_queue;

namespace {

void push(write_queue& queue, std::size_t kind, const std::string& text) {
  queue.push(kind, std::make_shared<const std::string>(text));
}

std::string content(const write_queue& queue) {
  std::string all;
  for (const auto& buffer : queue.buffers())
    all.append(static_cast<const char*>(buffer.data()), buffer.size());
  return all;
}

}  // namespace

TEST_CASE("the newest of a kind replaces the unsent one and goes last") {
  write_queue queue;
  push(queue, 1, "a1");
  push(queue, 2, "b1");
  push(queue, 1, "a2");
  CHECK(content(queue) == "b1a2");
  CHECK(queue.size() == 2);
}

TEST_CASE("a message that has begun to leave is finished before its successor") {
  write_queue queue;
  push(queue, 1, "first");
  queue.consume(2);
  push(queue, 1, "second");
  push(queue, 1, "third");
  CHECK(content(queue) == "rstthird");
  queue.consume(3);
  CHECK(content(queue) == "third");
  push(queue, 1, "4");
  CHECK(content(queue) == "4");
}

TEST_CASE("every split of the bytes sends the same stream") {
  for (std::size_t step = 1; step <= 9; ++step) {
    write_queue queue;
    push(queue, 1, "one");
    push(queue, 2, "two");
    push(queue, 3, "six");
    std::string stream;
    while (!queue.empty()) {
      const std::string left = content(queue);
      const std::size_t size = std::min(step, left.size());
      stream += left.substr(0, size);
      queue.consume(size);
    }
    CHECK(stream == "onetwosix");
  }
}

TEST_CASE("a peer that takes nothing holds one message of each kind, and one that has begun") {
  write_queue queue;
  push(queue, 0, "begun");
  queue.consume(1);
  for (int turn = 0; turn < 1000; ++turn)
    push(queue, static_cast<std::size_t>(turn % 4), "state");
  CHECK(queue.size() == 5);
}
