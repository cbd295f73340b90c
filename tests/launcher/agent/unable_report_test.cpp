// A node that cannot take part tells its own run's daemon, and no other.
#include "launcher/agent/unable_report.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

namespace ddprun::launcher {
namespace {

struct door {
  unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;

  door() {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof place;
    auto* const address = reinterpret_cast<sockaddr*>(&place);
    REQUIRE(::bind(socket.get(), address, size) == 0);
    REQUIRE(::listen(socket.get(), 4) == 0);
    REQUIRE(::getsockname(socket.get(), address, &size) == 0);
    port = ntohs(place.sin_port);
  }

  // Called after the report was sent, so a connection would be in the backlog.
  bool was_knocked_at() const {
    pollfd entry{socket.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  }
};

launch_options two_nodes_at(const door& place) {
  launch_options options;
  options.settings.nodes_min = options.settings.nodes_max = 2;
  options.endpoint = {"127.0.0.1", place.port};
  return options;
}

}  // namespace

TEST_CASE("the run hears which node cannot take part") {
  const door daemon;
  tell_run_unable(two_nodes_at(daemon), "b", "no such script");
  CHECK(daemon.was_knocked_at());
}

TEST_CASE("no daemon is told where another job may have the first of the run's ports") {
  const door daemon;
  launch_options options = two_nodes_at(daemon);
  options.more_ports = {1};
  tell_run_unable(options, "b", "no such script");
  CHECK_FALSE(daemon.was_knocked_at());
}

}  // namespace ddprun::launcher
