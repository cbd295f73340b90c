#include "launcher/agent/round_port.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <optional>

using namespace ddprun;
using test::raw_peer;
using test::run_until;

namespace {

// A port that nobody had a moment ago.
std::uint16_t free_port(boost::asio::io_context& io) {
  return test::tcp::acceptor(io, test::tcp::endpoint(test::tcp::v6(), 0)).local_endpoint().port();
}

bool can_listen_on(boost::asio::io_context& io, std::uint16_t port) {
  net::listener listener(io.get_executor());
  std::string problem;
  return listener.open("", port, problem).has_value();
}

struct port_fixture {
  explicit port_fixture(std::uint16_t fixed) { port.emplace(io.get_executor(), fixed, told()); }

  round_port::handlers told() {
    return {[this](std::uint16_t number, const std::string& text) {
              opened = number;
              problem = text;
            },
            [this](net::tcp::socket socket) { accepted.push_back(std::move(socket)); },
            [this](const std::string& text) { troubles.push_back(text); }};
  }
  std::uint16_t open() {
    opened.reset();
    port->open();
    REQUIRE(run_until(io, [&] { return opened.has_value(); }));
    return *opened;
  }

  boost::asio::io_context io{1};
  std::optional<round_port> port;
  std::optional<std::uint16_t> opened;
  std::string problem;
  std::vector<net::tcp::socket> accepted;
  std::vector<std::string> troubles;
};

}  // namespace

TEST_CASE("without a fixed port each round has its own, and none between two") {
  port_fixture f(0);
  const std::uint16_t first = f.open();
  REQUIRE(first != 0);
  f.port->pause();
  CHECK(can_listen_on(f.io, first));
}

TEST_CASE("a fixed port is handed on, and who comes between two rounds is cut") {
  boost::asio::io_context other;
  const std::uint16_t number = free_port(other);
  port_fixture f(number);
  CHECK(f.open() == number);
  raw_peer early(f.io, number);
  REQUIRE(run_until(f.io, [&] { return f.accepted.size() == 1; }));
  f.port->pause();
  CHECK_FALSE(can_listen_on(f.io, number));
  raw_peer between(f.io, number);
  REQUIRE(run_until(f.io, [&] { return between.closed(); }));
  CHECK(f.accepted.size() == 1);
  CHECK(f.open() == number);
  raw_peer late(f.io, number);
  REQUIRE(run_until(f.io, [&] { return f.accepted.size() == 2; }));
  f.port->close();
  CHECK(can_listen_on(f.io, number));
}

TEST_CASE("a fixed port in use is waited for, and named when it stays so") {
  boost::asio::io_context other;
  net::listener holder(other.get_executor());
  std::string ignored;
  const std::uint16_t number = *holder.open("", 0, ignored);
  port_fixture f(number);
  SECTION("until it is free") {
    f.port->open();
    REQUIRE(run_until(f.io, [&] { return !f.troubles.empty(); }));
    CHECK(f.troubles[0] == "cannot listen on [::]:" + std::to_string(number) +
                               ": Address already in use; trying for 3 s");
    holder.close();
    REQUIRE(run_until(f.io, [&] { return f.opened.has_value(); }));
    CHECK(f.opened == number);
    CHECK(f.troubles.size() == 1);
  }
  SECTION("not for ever") {
    CHECK(f.open() == 0);
    CHECK(f.problem == "cannot listen on [::]:" + std::to_string(number) +
                           ": Address already in use, tried for 3 s: end the program that holds "
                           "it, or choose another --master-port");
  }
  SECTION("and not by one that is gone") {
    f.port->open();
    f.port.reset();
    holder.close();
    test::run_ready(f.io);
    CHECK_FALSE(f.opened);
  }
}
