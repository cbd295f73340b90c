#include "launcher/agent/descriptor_needs.hpp"

#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/server/port_shares.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <sys/resource.h>

using namespace ddprun;
using namespace ddprun::launcher;
using server::peer_kind;

namespace {

struct limit {
  explicit limit(rlim_t files) {
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit now{std::min(files, before.rlim_max), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  }
  ~limit() { ::setrlimit(RLIMIT_NOFILE, &before); }
  limit(const limit&) = delete;
  limit& operator=(const limit&) = delete;
  rlimit before{};
};

}  // namespace

TEST_CASE("a daemon in an agent keeps room for all agents of its run") {
  const limit many(100'000);
  const std::size_t allowed = net::descriptor_limit();
  for (const std::uint64_t nodes : {1, 2, 3, 8, 64, 106, 107, 128, 256, 1000, 4096, 10'000}) {
    if (8 * nodes + 1000 > allowed) continue;  // of this machine's hard limit
    INFO(nodes << " nodes");
    const server::port_shares shares(daemon_connections(nodes, 8));
    CHECK(shares.share(peer_kind::agent) >= nodes);
    CHECK(has_descriptors_for_nodes(nodes, 8));
  }
}

TEST_CASE("a round needs far less than may be silent at its port") {
  core::open_service wanted;
  wanted.world_size = 16;
  wanted.group_world_size = 2;
  CHECK(needed_connections(wanted) == 2 * 16 + 2);
  CHECK(mute_connections(wanted) > 16 * 32);
  // A common limit must not cut the clients of the previous round without need.
  const limit common(1024);
  CHECK(needed_connections(wanted) + 100 < round_connections(8, 0));
  CHECK(mute_connections(wanted) > round_connections(8, 0));
}

TEST_CASE(
    "a daemon that is opened later has room for others' agents, beside the round that is on") {
  const limit common(1024);
  const std::size_t all = round_connections(8, 0);
  CHECK(later_daemon_connections(8, 0) == all / 2);
  CHECK(later_daemon_connections(8, 100) == all / 2);
  CHECK(later_daemon_connections(8, all - 50) == 50);
  CHECK(later_daemon_connections(8, all + 50) == 1);
  CHECK(later_daemon_connections(8, 0) > daemon_connections(1, 8));
}

TEST_CASE("what a daemon may hold leaves half for the round's port, and is judged by its agents") {
  const limit few(1024);
  constexpr std::size_t half = (1024 - 64 - 8 * 6) / 2;
  CHECK(daemon_connections(400, 8) == half);
  CHECK(round_connections(8, daemon_connections(400, 8)) == half);
  for (const std::uint64_t nodes : {1, 100, 290, 340, 400, 468}) {
    INFO(nodes << " nodes");
    const server::port_shares shares(daemon_connections(nodes, 8));
    CHECK(has_descriptors_for_nodes(nodes, 8) == (shares.most(peer_kind::agent) >= nodes));
  }
  CHECK(has_descriptors_for_nodes(100, 8));
  CHECK_FALSE(has_descriptors_for_nodes(400, 8));
}
