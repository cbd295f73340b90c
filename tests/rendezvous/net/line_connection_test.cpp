#include "rendezvous/net/line_connection.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <optional>
#include <vector>

using namespace ddprun;
using namespace ddprun::net;
using namespace std::chrono_literals;
using tests::run_until;

namespace {

shared_bytes bytes(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

// A connection under test, and a raw peer at its other end.
struct fixture {
  boost::asio::io_context io{1};
  std::vector<std::string> lines;
  std::optional<error_code> ended;
  std::shared_ptr<line_connection> connection;
  std::optional<tests::raw_peer> peer;

  explicit fixture(duration stall_limit = 10s) {
    auto [near, far] = tests::socket_pair(io);
    line_handlers handlers;
    handlers.on_line = [this](std::string_view line) { lines.emplace_back(line); };
    handlers.on_end = [this](error_code error) { ended = error; };
    connection =
        std::make_shared<line_connection>(std::move(near), std::move(handlers), stall_limit);
    peer.emplace(std::move(far));
    connection->start();
  }
  ~fixture() {
    connection->close();
    tests::run_ready(io);
  }
};

}  // namespace

TEST_CASE("lines arrive however they are cut into segments") {
  fixture f;
  f.peer->say("one\ntwo\nth");
  REQUIRE(run_until(f.io, [&] { return f.lines.size() == 2; }));
  f.peer->say("ree\n");
  REQUIRE(run_until(f.io, [&] { return f.lines.size() == 3; }));
  CHECK(f.lines == std::vector<std::string>{"one", "two", "three"});
}

TEST_CASE("all that is queued in one turn leaves, the newest of each kind") {
  fixture f;
  f.connection->send(1, bytes("old\n"));
  f.connection->send(2, bytes("other\n"));
  f.connection->send(1, bytes("new\n"));
  REQUIRE(run_until(f.io, [&] { return f.peer->lines() == 2; }));
  CHECK(f.peer->heard() == "other\nnew\n");
}

TEST_CASE("the peer's end is told once") {
  fixture f;
  f.peer->say("last\n");
  f.peer->socket().shutdown(tcp::socket::shutdown_send);
  REQUIRE(run_until(f.io, [&] { return f.ended.has_value(); }));
  CHECK(f.lines == std::vector<std::string>{"last"});
  CHECK(*f.ended == errc::connection_closed);
  CHECK_FALSE(f.connection->is_open());
}

TEST_CASE("a line without end is cut off at the limit") {
  fixture f;
  const std::string endless(line_bytes_max, 'x');
  f.peer->socket().non_blocking(false);
  f.peer->say(endless);
  REQUIRE(run_until(f.io, [&] { return f.ended.has_value(); }));
  CHECK(*f.ended == errc::message_too_long);
}

TEST_CASE("a peer that does not read is cut off and costs one state") {
  fixture f(100ms);
  const std::string line = std::string(60'000, 'x') + "\n";
  // These are more states than any socket buffer holds; they are replaced rather than queued.
  for (int turn = 0; turn < 2000 && !f.ended; ++turn) {
    f.connection->send(1, bytes(line));
    tests::run_ready(f.io);
  }
  REQUIRE(run_until(f.io, [&] { return f.ended.has_value(); }));
  CHECK(*f.ended == errc::peer_does_not_read);
}

TEST_CASE("finish sends what is queued although the peer has sent bytes that are not read") {
  fixture f;
  f.peer->say("unread\nunread\n");
  bool done = false;
  f.connection->send(1, bytes("last words\n"));
  f.connection->finish(30s, [&] { done = true; });
  REQUIRE(run_until(f.io, [&] { return f.peer->closed(); }));
  CHECK(f.peer->heard() == "last words\n");
  CHECK(f.lines.empty());
  CHECK_FALSE(done);
  f.peer->say("still talking\n");
  f.peer->socket().close();
  REQUIRE(run_until(f.io, [&] { return done; }));
  CHECK_FALSE(f.ended);
}

TEST_CASE("finish ends at its limit when the peer stays") {
  fixture f;
  bool done = false;
  f.connection->finish(50ms, [&] { done = true; });
  REQUIRE(run_until(f.io, [&] { return done; }));
}

TEST_CASE("after close nothing is heard") {
  fixture f;
  f.peer->say("one\n");
  f.connection->close();
  tests::run_ready(f.io);
  CHECK(f.lines.empty());
  CHECK_FALSE(f.ended);
  REQUIRE(run_until(f.io, [&] { return f.peer->closed(); }));
}

TEST_CASE("a loop that is destroyed takes its connections along") {
  auto io = std::make_unique<boost::asio::io_context>(1);
  auto [near, far] = tests::socket_pair(*io);
  std::weak_ptr<line_connection> watched;
  {
    line_handlers handlers{[](std::string_view) {}, [](error_code) {}};
    auto connection = std::make_shared<line_connection>(std::move(near), std::move(handlers));
    watched = connection;
    connection->start();
  }
  CHECK_FALSE(watched.expired());
  far.close();
  io.reset();
  CHECK(watched.expired());
}
