// A connection whose process has no memory at some step goes on, or both sides learn of its end.
#include "rendezvous/net/line_connection.hpp"
#include "tests/no_memory/without_memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <new>
#include <string>

using namespace ddprun;
using namespace ddprun::net;
using tests::failing_allocations;
using tests::raw_peer;
using tests::run_until;

namespace {

struct two_ends {
  boost::asio::io_context io{1};
  std::string heard;
  error_code ended;
  std::shared_ptr<line_connection> near;
  std::optional<raw_peer> far;

  two_ends() {
    auto [mine, theirs] = tests::socket_pair(io);
    far.emplace(std::move(theirs));
    line_handlers handlers;
    handlers.on_line = [this](std::string_view line) { heard += line; };
    handlers.on_end = [this](error_code error) { ended = error; };
    near = std::make_shared<line_connection>(std::move(mine), std::move(handlers));
    near->start();
  }
};

}  // namespace

TEST_CASE("a line that there is no memory for ends the connection, unless it is heard") {
  const std::string line(100'000, 'a');
  const std::size_t count = GENERATE(std::size_t{1}, failing_allocations::all);
  tests::fail_each_allocation(count, [&](std::size_t before) {
    two_ends ends;
    tests::run_ready(ends.io);
    ends.far->say(line);
    const bool has_failed = tests::without_memory(ends.io, before, count);
    if (!ends.far->closed()) ends.far->say("\n");
    REQUIRE(run_until(ends.io, [&] { return ends.heard == line || ends.ended; }));
    if (ends.heard != line) REQUIRE(run_until(ends.io, [&] { return ends.far->closed(); }));
    return has_failed;
  });
}

TEST_CASE("a line that there is no memory to send ends the connection, unless it is sent") {
  const std::size_t count = GENERATE(std::size_t{1}, failing_allocations::all);
  const auto line = std::make_shared<const std::string>("a line\n");
  tests::fail_each_allocation(count, [&](std::size_t before) {
    two_ends ends;
    tests::run_ready(ends.io);
    const bool has_failed =
        tests::without_memory(ends.io, before, count, [&] { ends.near->send(0, line); });
    REQUIRE(run_until(ends.io, [&] { return ends.far->heard() == *line || ends.far->closed(); }));
    if (ends.far->heard() != *line) REQUIRE(run_until(ends.io, [&] { return bool(ends.ended); }));
    return has_failed;
  });
}

TEST_CASE("a connection that there is no memory to finish in order ends all the same") {
  const std::size_t count = GENERATE(std::size_t{1}, failing_allocations::all);
  tests::fail_each_allocation(count, [&](std::size_t before) {
    two_ends ends;
    tests::run_ready(ends.io);
    bool is_done = false;
    std::function<void()> done = [&is_done] { is_done = true; };
    const bool has_failed = tests::without_memory(
        ends.io, before, count, [&] { ends.near->finish(std::chrono::hours(1), std::move(done)); });
    REQUIRE(run_until(ends.io, [&] { return ends.far->closed(); }));
    ends.far.reset();
    REQUIRE(run_until(ends.io, [&] { return is_done; }));
    return has_failed;
  });
}

TEST_CASE("a handler that has no memory for its line ends the connection") {
  two_ends ends;
  line_handlers handlers;
  handlers.on_line = [](std::string_view) { throw std::bad_alloc(); };
  error_code ended;
  handlers.on_end = [&](error_code error) { ended = error; };
  auto [mine, theirs] = tests::socket_pair(ends.io);
  const auto near = std::make_shared<line_connection>(std::move(mine), std::move(handlers));
  raw_peer far(std::move(theirs));
  near->start();
  far.say("a line\n");
  tests::without_memory(ends.io, 0, 0);
  CHECK(ended == boost::asio::error::no_memory);
  CHECK(run_until(ends.io, [&] { return far.closed(); }));
}
