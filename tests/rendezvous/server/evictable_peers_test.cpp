#include "rendezvous/server/evictable_peers.hpp"

#include "rendezvous/server/port_shares.hpp"
#include "tests/support/catch.hpp"

#include <random>
#include <string>

namespace ddprun::server {

TEST_CASE("the peer that has waited longest is closed first, and only once") {
  evictable_peers room;
  std::string gone;
  const auto first = room.enter([&] { gone += 'a'; });
  room.enter([&] { gone += 'b'; });
  room.enter([&] { gone += 'c'; });
  room.leave(first);
  CHECK(room.let_oldest_go());
  CHECK(gone == "b");
  CHECK(room.size() == 1);
  room.leave(first);
  CHECK(room.let_oldest_go());
  CHECK_FALSE(room.let_oldest_go());
  CHECK(gone == "bc");
}

TEST_CASE("a peer may enter again while it is being closed") {
  evictable_peers room;
  int again = 0;
  room.enter([&] { room.enter([&] { ++again; }); });
  CHECK(room.let_oldest_go());
  CHECK(room.size() == 1);
  CHECK(room.let_oldest_go());
  CHECK(again == 1);
  CHECK(room.size() == 0);
}

TEST_CASE("of the peers that hold memory the oldest go until the rest is within the limit") {
  evictable_peers room(100);
  std::string gone;
  const auto enter = [&](char name) { return room.enter([&gone, name] { gone += name; }); };
  enter('s');  // holds nothing
  const auto a = enter('a');
  const auto b = enter('b');
  const auto c = enter('c');
  room.hold(b, 40);
  room.hold(a, 40);
  room.hold(c, 20);
  CHECK(gone.empty());
  room.hold(c, 50);
  CHECK(gone == "a");
  CHECK(room.bytes() == 90);
  room.hold(b, 0);
  CHECK(room.bytes() == 50);
  room.hold(c, 101);
  CHECK(gone == "ac");
  CHECK(room.bytes() == 0);
  CHECK(room.size() == 2);
}

TEST_CASE("each kind of peer has a share that the others cannot take") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const std::size_t most : {0, 1, 8, 32, 96, 224, 992, 65'504}) {
    const port_shares shares(most);
    CHECK(shares.total() == std::max(most, port_shares::connections_min));
    for (std::size_t kind = 0; kind < peer_kinds; ++kind) {
      peer_counts now{};
      std::size_t open = 0;
      // The other kinds take all that they can.
      const auto room_for_others = [&] {
        for (std::size_t other = 0; other < peer_kinds; ++other) {
          if (other != kind && shares.admit(peer_kind(other), now)) return true;
        }
        return false;
      };
      while (room_for_others()) {
        const std::size_t other = random() % peer_kinds;
        if (other == kind || !shares.admit(peer_kind(other), now)) continue;
        ++now[other];
        ++open;
      }
      INFO("kind " << kind << " of " << most);
      REQUIRE(shares.admit(peer_kind(kind), now));
      while (shares.admit(peer_kind(kind), now)) {
        ++now[kind];
        ++open;
      }
      CHECK(open <= shares.total());
      CHECK(now[kind] >= shares.share(peer_kind(kind)));
      const std::size_t parts = peer_kind(kind) == peer_kind::agent ? 3 : 1;
      const std::size_t limit = peer_kind(kind) == peer_kind::agent  ? shares.total()
                                : peer_kind(kind) == peer_kind::http ? port_shares::http_max
                                                                     : port_shares::share_max;
      CHECK(now[kind] >= std::min(parts * (shares.total() / 8), limit));
    }
  }
}

TEST_CASE("what is in no kind's share goes to the first that come") {
  const port_shares shares(80);  // 10, 30, 10, 10
  CHECK(shares.most(peer_kind::tcpstore) == 30);
  CHECK(shares.most(peer_kind::agent) == 50);
  CHECK(shares.admit(peer_kind::tcpstore, {0, 0, 29, 0}));
  CHECK_FALSE(shares.admit(peer_kind::tcpstore, {0, 0, 30, 0}));
  CHECK_FALSE(shares.admit(peer_kind::tcpstore, {11, 0, 29, 0}));
  CHECK(shares.admit(peer_kind::agent, {10, 49, 10, 10}));
  CHECK_FALSE(shares.admit(peer_kind::agent, {10, 50, 10, 10}));
}

}  // namespace ddprun::server
