// A probe is answered as long as the loop runs, and other requests are not.
#include "launcher/network/health_port.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <boost/asio/io_context.hpp>

#include <vector>

namespace ddprun::launcher {
namespace {

struct answered {
  boost::asio::io_context io;
  health_port health;

  // `limit`: of a client that says nothing.
  explicit answered(std::chrono::milliseconds limit = std::chrono::hours(1))
      : health(io.get_executor(), limit) {
    REQUIRE_FALSE(health.open(0));
  }

  std::string to(const std::string& request) {
    boost::asio::ip::tcp::socket socket(io);
    socket.connect(tests::loopback(health.port()));
    boost::asio::write(socket, boost::asio::buffer(request));
    tests::raw_peer peer(std::move(socket));
    REQUIRE(tests::run_until(io, [&] { return peer.closed(); }));
    return peer.heard();
  }
};

}  // namespace

TEST_CASE("GET /healthz is answered with ok, and other questions are not") {
  answered answers;
  const std::string ok = answers.to("GET /healthz HTTP/1.1\r\nHost: pod\r\n\r\n");
  CHECK(ok.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(ok.ends_with("\r\n\r\nok\n"));
  CHECK(answers.to("HEAD /healthz HTTP/1.0\r\n\r\n").ends_with("Content-Length: 3\r\n\r\n"));
  for (const std::string other : {"GET / HTTP/1.1\r\n\r\n", "POST /healthz HTTP/1.1\r\n\r\n",
                                  "GET /healthzz HTTP/1.1\r\n\r\n"}) {
    CHECK(answers.to(other).starts_with("HTTP/1.1 404 Not Found\r\n"));
  }
}

TEST_CASE("what is no request, or brings a body, is cut off") {
  answered answers;
  for (const std::string other :
       {"\r\n\r\n", "hello\r\n\r\n", "GET /healthz HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"}) {
    CHECK(answers.to(other).empty());
  }
}

TEST_CASE("a client that says too much is cut off") {
  answered answers;
  CHECK(answers.to(std::string(9 * 1024, 'x')).empty());
}

TEST_CASE("clients that say nothing keep no probe from its answer for long") {
  answered answers(std::chrono::milliseconds(200));
  std::vector<boost::asio::ip::tcp::socket> silent;
  for (int count = 0; count < 20; ++count) {
    silent.emplace_back(answers.io);
    silent.back().connect(tests::loopback(answers.health.port()));
  }
  tests::run_ready(answers.io);
  const auto is_acked = [&] {
    return answers.to("GET /healthz HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200");
  };
  CHECK(tests::run_until(answers.io, is_acked));
}

TEST_CASE("a port that is taken is an error, and none is open then") {
  answered first;
  boost::asio::io_context io;
  health_port second(io.get_executor());
  CHECK(second.open(first.health.port()) == boost::system::errc::address_in_use);
}

}  // namespace ddprun::launcher
