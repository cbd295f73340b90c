#include "rendezvous/net/dialer.hpp"

#include "rendezvous/net/listener.hpp"
#include "rendezvous/net/resolve.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <optional>

using namespace ddprun;
using namespace ddprun::net;
using namespace std::chrono_literals;
using test::run_until;

namespace {

// A port of loopback on which nobody listens: bound, so that nobody takes it meanwhile.
struct silent_port {
  explicit silent_port(boost::asio::io_context& io) : socket(io) {
    socket.open(tcp::v4());
    socket.bind(test::loopback(0));
  }
  std::uint16_t port() const { return socket.local_endpoint().port(); }
  tcp::socket socket;
};

}  // namespace

TEST_CASE("numeric addresses are known without a look-up") {
  CHECK(numeric_address("127.0.0.1"));
  CHECK(numeric_address("[::1]"));
  CHECK(numeric_address("::1"));
  CHECK_FALSE(numeric_address("localhost"));
  CHECK_FALSE(numeric_address("node-1"));
  CHECK_FALSE(numeric_address(""));
}

TEST_CASE("endpoints are shown as a person types them") {
  CHECK(endpoint_text("::1", 80) == "[::1]:80");
  CHECK(endpoint_text("[::1]", 80) == "[::1]:80");
  CHECK(endpoint_text("node-a", 29400) == "node-a:29400");
  CHECK(address_text(boost::asio::ip::make_address("::ffff:10.0.0.1")) == "10.0.0.1");
}

TEST_CASE("localhost is looked up off the loop") {
  boost::asio::io_context io{1};
  resolver resolving(io.get_executor());
  std::optional<error_code> answer;
  endpoints found;
  resolving.start("localhost", 7, [&](error_code error, endpoints all) {
    answer = error;
    found = std::move(all);
  });
  CHECK_FALSE(answer);
  io.run();  // the look-up counts as work
  REQUIRE(answer);
  CHECK_FALSE(*answer);
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().port() == 7);
  CHECK(found.front().address().is_loopback());
}

TEST_CASE("a cancelled look-up is unheard, and its loop may be gone when it ends") {
  for (int turn = 0; turn < 20; ++turn) {
    boost::asio::io_context io{1};
    resolver resolving(io.get_executor());
    resolving.start("localhost", 7, [&](error_code, const endpoints&) { FAIL("heard"); });
    resolving.cancel();
    io.run();
  }
}

TEST_CASE("dialing finds a listener by name and by number") {
  boost::asio::io_context io{1};
  listener listening(io.get_executor());
  std::string problem;
  const auto port = listening.open("", 0, problem);
  INFO(problem);
  REQUIRE(port.has_value());
  int accepted = 0;
  listening.start({[&](tcp::socket) { ++accepted; }, {}});
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    dialer dialing(io.get_executor());
    std::optional<dial_result> answer;
    dialing.start(host, *port, 0s, 30s, [&](dial_result found) { answer = std::move(found); });
    REQUIRE(run_until(io, [&] { return answer.has_value(); }));
    INFO(answer->text);
    CHECK(answer->socket);
  }
  REQUIRE(run_until(io, [&] { return accepted == 2; }));
}

TEST_CASE("a failed dial says who was tried and what the system said") {
  boost::asio::io_context io{1};
  const silent_port silent(io);
  dialer dialing(io.get_executor());
  std::optional<dial_result> answer;
  const auto heard = [&](dial_result found) { answer = std::move(found); };
  dialing.start("127.0.0.1", silent.port(), 0s, 30s, heard);
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK(answer->text == "127.0.0.1:" + std::to_string(silent.port()) + ": Connection refused");

  answer.reset();
  dialing.start("localhost", silent.port(), 0s, 30s, heard);
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK(answer->text.find("127.0.0.1:" + std::to_string(silent.port()) + ": Connection refused") !=
        std::string::npos);

  answer.reset();
  dialing.start("no-such-host.invalid", 1, 0s, 30s, heard);
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK(answer->text.starts_with(
      "no-such-host.invalid:1: cannot look up no-such-host.invalid: Host not found"));
}

TEST_CASE("a dial ends at its limit and counts it from the end of the delay") {
  boost::asio::io_context io{1};
  // A backlog that is full: the handshake of one more connection is never completed.
  tcp::acceptor full(io);
  full.open(tcp::v4());
  full.bind(test::loopback(0));
  full.listen(0);
  std::vector<tcp::socket> fillers;
  for (int turn = 0; turn < 8; ++turn) {
    fillers.emplace_back(io);
    fillers.back().async_connect(full.local_endpoint(), [](error_code) {});
  }
  test::run_ready(io);
  dialer dialing(io.get_executor());
  std::optional<dial_result> answer;
  dialing.start("127.0.0.1", full.local_endpoint().port(), 1ms, 100ms,
                [&](dial_result found) { answer = std::move(found); });
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK_FALSE(answer->socket);
  CHECK(answer->text.ends_with(": no answer within 100 ms"));
}

TEST_CASE("a dialer that is destroyed or cancelled is unheard") {
  boost::asio::io_context io{1};
  const silent_port silent(io);
  {
    dialer dialing(io.get_executor());
    dialing.start("127.0.0.1", silent.port(), 0s, 30s, [](const dial_result&) { FAIL("heard"); });
  }
  dialer again(io.get_executor());
  again.start("localhost", silent.port(), 0s, 30s, [](const dial_result&) { FAIL("heard"); });
  test::run_ready(io);
  again.cancel();
  io.run();
}
