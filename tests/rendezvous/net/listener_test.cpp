#include "rendezvous/net/listener.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::net;
using tests::run_until;

TEST_CASE("a port in use is named with its address and the system's words") {
  boost::asio::io_context io{1};
  listener first(io.get_executor());
  listener second(io.get_executor());
  std::string problem;
  const auto port = first.open("127.0.0.1", 0, problem);
  REQUIRE(port.has_value());
  const auto again = second.open("127.0.0.1", *port, problem);
  REQUIRE(again.has_error());
  CHECK(again.error() == boost::system::errc::address_in_use);
  CHECK(problem ==
        "cannot listen on 127.0.0.1:" + std::to_string(*port) + ": Address already in use");
  CHECK(second.open("node-a", 0, problem).has_error());
  CHECK(problem == "cannot listen on node-a: it is not a numeric address of this host");
  CHECK(second.open("203.0.113.1", 0, problem).has_error());
  CHECK(problem == "cannot listen on 203.0.113.1:0: Cannot assign requested address");
}

TEST_CASE("without an address both families are served") {
  boost::asio::io_context io{1};
  listener listening(io.get_executor());
  std::string problem;
  const auto port = listening.open("", 0, problem);
  REQUIRE(port.has_value());
  int accepted = 0;
  listening.start({[&](tcp::socket) { ++accepted; }, {}});
  tcp::socket four(io);
  four.connect(tests::loopback(*port));
  REQUIRE(run_until(io, [&] { return accepted == 1; }));
  tcp::socket six(io);
  boost::system::error_code error;
  six.connect(tcp::endpoint(boost::asio::ip::address_v6::loopback(), *port), error);
  if (!error) REQUIRE(run_until(io, [&] { return accepted == 2; }));
}

TEST_CASE("an accepted connection is handled before the next one is accepted") {
  boost::asio::io_context io{1};
  listener listening(io.get_executor());
  std::string problem;
  const auto port = listening.open("127.0.0.1", 0, problem);
  REQUIRE(port.has_value());
  std::vector<tcp::socket> peers;
  for (int number = 0; number < 3; ++number)
    peers.emplace_back(io).connect(tests::loopback(*port));
  std::string order;
  listening.start({[&](tcp::socket) {
                     order += "accepted ";
                     boost::asio::post(io, [&] { order += "heard "; });
                   },
                   {}});
  const std::string each = "accepted heard ";
  REQUIRE(run_until(io, [&] { return order.size() >= 3 * each.size(); }));
  CHECK(order == each + each + each);
}

TEST_CASE("a socket that listens already is taken over with the connections that wait") {
  boost::asio::io_context io{1};
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  std::string problem;
  CHECK(listening_port(descriptor, problem).has_error());  // it does not listen yet
  CHECK(problem == "cannot listen on the given descriptor " + std::to_string(descriptor) +
                       ": it is not a TCP socket that listens");
  REQUIRE(::listen(descriptor, 8) == 0);
  const auto port = listening_port(descriptor, problem);
  REQUIRE(port.has_value());
  tcp::socket early(io);
  early.connect(tests::loopback(*port));
  listener listening(io.get_executor());
  REQUIRE(listening.adopt(descriptor, problem).value() == *port);
  int accepted = 0;
  listening.start({[&](tcp::socket) { ++accepted; }, {}});
  REQUIRE(run_until(io, [&] { return accepted == 1; }));
}

TEST_CASE("what is no socket that listens is refused, and closed") {
  boost::asio::io_context io{1};
  listener listening(io.get_executor());
  std::string problem;
  for (const int descriptor :
       {::open("/dev/null", O_RDONLY | O_CLOEXEC), ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
        ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)}) {
    CHECK(listening.adopt(descriptor, problem).has_error());
    CHECK(problem == "cannot listen on the given descriptor " + std::to_string(descriptor) +
                         ": it is not a TCP socket that listens");
    CHECK(::fcntl(descriptor, F_GETFD) == -1);
  }
}

TEST_CASE("an accepted connection is probed by keep-alive now and then") {
  const auto option = [](tcp::socket& socket, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    ::getsockopt(socket.native_handle(), level, name, &value, &size);
    return value;
  };
  const auto accepted_by = [](keep_alive limits, auto look) {
    boost::asio::io_context io{1};
    listener listening(io.get_executor(), limits);
    std::string problem;
    const auto port = listening.open("", 0, problem);
    REQUIRE(port.has_value());
    bool looked = false;
    listening.start({[&](tcp::socket socket) {
                       look(socket);
                       looked = true;
                     },
                     {}});
    tcp::socket client(io);
    client.connect(tests::loopback(*port));
    REQUIRE(run_until(io, [&] { return looked; }));
  };
  accepted_by({std::chrono::seconds(7), std::chrono::seconds(3), 2}, [&](tcp::socket& socket) {
    CHECK(option(socket, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(socket, IPPROTO_TCP, TCP_KEEPIDLE) == 7);
    CHECK(option(socket, IPPROTO_TCP, TCP_KEEPINTVL) == 3);
    CHECK(option(socket, IPPROTO_TCP, TCP_KEEPCNT) == 2);
  });
  accepted_by({}, [&](tcp::socket& socket) {
    const int limit =
        option(socket, IPPROTO_TCP, TCP_KEEPIDLE) +
        option(socket, IPPROTO_TCP, TCP_KEEPINTVL) * option(socket, IPPROTO_TCP, TCP_KEEPCNT);
    CHECK(limit >= 60);
    CHECK(limit <= 120);
  });
}

TEST_CASE("out of descriptors is said once, and the connections wait") {
  boost::asio::io_context io{1};
  listener listening(io.get_executor());
  std::string problem;
  const auto port = listening.open("127.0.0.1", 0, problem);
  REQUIRE(port.has_value());
  std::vector<tcp::socket> accepted;
  std::vector<std::string> troubles;
  listening.start({[&](tcp::socket socket) { accepted.push_back(std::move(socket)); },
                   [&](const std::string& text) { troubles.push_back(text); }});
  tcp::socket client(io);
  client.connect(tests::loopback(*port));

  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  // The limit is below every open descriptor, so the next accept fails.
  rlimit none = old;
  none.rlim_cur = static_cast<rlim_t>(client.native_handle());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool told = run_until(io, [&] { return !troubles.empty(); });
  // A second attempt fails, too, and is not reported; the test only waits for its pause.
  for (int turn = 0; turn < 3; ++turn)
    io.run_one_for(std::chrono::seconds(10));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK(told);
  REQUIRE(run_until(io, [&] { return accepted.size() == 1; }));
  CHECK(troubles.size() == 1);
  CHECK(troubles.front().find("Too many open files") != std::string::npos);
}
