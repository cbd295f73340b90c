// Besides root, a child that has become another user may hold a connection that this user has
// opened.
#include "rendezvous/net/peer_user.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

#include <boost/asio/io_context.hpp>

#include <arpa/inet.h>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using namespace ddprun;
using net::tcp;

namespace {

constexpr uid_t other_user = 54321;  // no real user, and mapped wherever all users are

struct pair_of_sockets {
  boost::asio::io_context io;
  tcp::acceptor listener;
  tcp::socket client{io};
  tcp::socket server{io};

  explicit pair_of_sockets(const tcp::endpoint& at) : listener(io, at) {}

  // `opened`: a socket that is not connected yet.
  void connect(int opened) {
    client.assign(listener.local_endpoint().protocol(), opened);
    client.connect(listener.local_endpoint());
    server = listener.accept();
  }
  void connect() {
    client.open(listener.local_endpoint().protocol());
    client.connect(listener.local_endpoint());
    server = listener.accept();
  }
};

// A socket belongs to the user who has created it.
int socket_of(uid_t user) {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(user, user, user) != 0) ::_exit(1);
    const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    *header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), &made, sizeof made);
    ::_exit(::sendmsg(ends[1], &message, 0) == 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(::recvmsg(ends[0], &message, MSG_CMSG_CLOEXEC) == 1);
  int made = -1;
  std::memcpy(&made, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof made);
  ::close(ends[0]);
  ::close(ends[1]);
  return made;
}

tcp::endpoint at(const char* address) {
  return {boost::asio::ip::make_address(address), 0};
}

}  // namespace

TEST_CASE("connections of our own user are let in, over IPv4, IPv6 and both at once") {
  net::peer_users users;
  for (const char* const address : {"127.0.0.1", "::1", "::ffff:127.0.0.1"}) {
    INFO(address);
    std::optional<pair_of_sockets> pair;
    try {
      pair.emplace(at(address));
    } catch (const boost::system::system_error&) {
      continue;  // a host without IPv6
    }
    pair->connect();
    CHECK(users.refusal(pair->server).empty());
  }
}

TEST_CASE("a connection of another user is refused, with both named and what to do") {
  if (::geteuid() != 0) return tests::skip("only root can be another user");
  net::peer_users users;
  pair_of_sockets pair(at("127.0.0.1"));
  pair.connect(socket_of(other_user));
  CHECK(
      users.refusal(pair.server) ==
      "this port of uid 0 accepts no agents of other users of its host (uid 54321): run ddprun as "
      "the same user, or start what listens here with --allow-other-users");
}

TEST_CASE("a socket that is bound to loopback itself does not hide") {
  if (::geteuid() != 0) return tests::skip("only root can be another user");
  net::peer_users users;
  pair_of_sockets pair(at("127.0.0.1"));
  const int opened = socket_of(other_user);
  REQUIRE(::setsockopt(opened, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) == 0);
  pair.connect(opened);
  CHECK(users.refusal(pair.server).find("uid 54321") != std::string::npos);
}

TEST_CASE("a peer that has closed its end has no known user, and is refused") {
  net::peer_users users;
  pair_of_sockets pair(at("127.0.0.1"));
  pair.connect();
  SECTION("in order") {
    pair.client.close();
  }
  SECTION("by a reset") {
    pair.client.set_option(boost::asio::socket_base::linger(true, 0));
    pair.client.close();
  }
  CHECK(users.refusal(pair.server).find("has closed its connection") != std::string::npos);
}

TEST_CASE(
    "a peer that has only shut down its sending side, like a guardian, still has a known user") {
  net::peer_users users;
  pair_of_sockets pair(at("127.0.0.1"));
  pair.connect();
  pair.client.shutdown(tcp::socket::shutdown_send);
  CHECK(users.refusal(pair.server).empty());
}
