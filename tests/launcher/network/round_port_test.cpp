#include "launcher/network/round_port.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/no_descriptors.hpp"

#include <netinet/tcp.h>
#include <optional>
#include <sys/socket.h>

using namespace ddprun;
using namespace ddprun::launcher;
using tests::raw_peer;
using tests::run_until;

namespace {

// A port that was free a moment ago.
std::uint16_t free_port(boost::asio::io_context& io) {
  return tests::tcp::acceptor(io, tests::tcp::endpoint(tests::tcp::v6(), 0))
      .local_endpoint()
      .port();
}

bool can_listen_on(boost::asio::io_context& io, std::uint16_t port) {
  net::listener listener(io.get_executor());
  std::string problem;
  return listener.open("", port, problem).has_value();
}

struct port_fixture {
  explicit port_fixture(std::uint16_t fixed) {
    port.emplace(io.get_executor(), fixed, net::keep_alive{}, told());
  }

  round_port::handlers told() {
    return {[this](std::uint16_t number, const std::string& text) {
              opened = number;
              problem = text;
            },
            [this](net::tcp::socket socket) { accepted.push_back(std::move(socket)); },
            [this](const std::string& text) { troubles.push_back(text); }};
  }
  std::uint16_t open(std::vector<std::string> addresses = {}) {
    opened.reset();
    port->open(std::move(addresses));
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

TEST_CASE("a fixed port is handed on, and a connection between two rounds is cut") {
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
    f.port->open({});
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
    f.port->open({});
    f.port.reset();
    holder.close();
    tests::run_ready(f.io);
    CHECK_FALSE(f.opened);
  }
}

TEST_CASE("on several addresses it has one number, and no other address is open") {
  port_fixture f(0);
  const std::uint16_t number = f.open({"127.0.1.1", "127.0.0.1", "::1"});
  REQUIRE(number != 0);
  net::listener other(f.io.get_executor());
  for (const char* taken : {"127.0.1.1", "127.0.0.1"})
    CHECK_FALSE(other.open(taken, number, f.problem));
  CHECK(other.open("127.0.2.1", number, f.problem));
  raw_peer client(f.io, number);
  REQUIRE(run_until(f.io, [&] { return f.accepted.size() == 1; }));
}

TEST_CASE("an address that is none of ours any more does not keep the round from its port") {
  port_fixture f(0);
  const std::uint16_t number = f.open({"192.0.2.1", "127.0.0.1"});
  REQUIRE(number != 0);
  CHECK_FALSE(can_listen_on(f.io, number));
}

TEST_CASE("a fixed port is opened anew where its addresses change, and only there") {
  boost::asio::io_context other;
  const std::uint16_t number = free_port(other);
  port_fixture f(number);
  net::listener probe(f.io.get_executor());
  CHECK(f.open({"127.0.0.1"}) == number);
  f.port->pause();
  CHECK(f.open({"127.0.0.1"}) == number);
  CHECK(probe.open("127.0.1.1", number, f.problem));
  probe.close();
  f.port->pause();
  CHECK(f.open({"127.0.1.1", "127.0.0.1"}) == number);
  CHECK_FALSE(probe.open("127.0.1.1", number, f.problem));
  f.port->pause();
  CHECK(f.open({}) == number);
  CHECK_FALSE(can_listen_on(f.io, number));
}

TEST_CASE("a port for which there are no descriptors is tried again") {
  port_fixture f(0);
  run_until(f.io, [] { return true; });
  {
    const tests::no_descriptors none;
    f.port->open({"127.0.0.1"});
    REQUIRE(run_until(f.io, [&] { return !f.troubles.empty(); }));
    CHECK(f.troubles[0] == "cannot listen on 127.0.0.1:0: Too many open files; trying for 3 s");
    CHECK_FALSE(f.opened);
  }
  REQUIRE(run_until(f.io, [&] { return f.opened.has_value(); }));
  CHECK(f.opened != 0);
}

TEST_CASE("the kernel lets go of no client before the node's timeout") {
  port_fixture f(0);
  f.port.emplace(f.io.get_executor(), 0, net::keep_alive_for(std::chrono::minutes(10)), f.told());
  net::tcp::socket client(f.io);
  const std::uint16_t port = f.open({"127.0.0.1"});
  client.connect(tests::loopback(port));
  REQUIRE(run_until(f.io, [&] { return f.accepted.size() == 1; }));
  int idle = 0;
  socklen_t size = sizeof idle;
  ::getsockopt(f.accepted.front().native_handle(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size);
  CHECK(idle == 600);
}
