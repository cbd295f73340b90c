// A daemon that passes the tethers of its port on to a round's leader in the same process.
#include "rendezvous/server/protocol_router.hpp"

#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/support/daemon_fixture.hpp"

#include <boost/asio/read.hpp>

#include <optional>
#include <string>

using namespace ddprun;
using fixture = tests::daemon_fixture;
using tests::raw_peer;
using tests::run_until;

namespace {

using held_socket = std::optional<net::tcp::socket>;

struct leader {
  held_socket* tether = nullptr;  // after the fixture: a socket goes before its loop

  server::server_options options() {
    server::server_options values;
    values.tether = [this](net::tcp::socket socket) { tether->emplace(std::move(socket)); };
    return values;
  }
};

std::string any_hello_line() {
  hello words;
  words.run_id = "r";
  words.session = {0, 1};
  words.node = "node-a";
  words.settings.nodes_min = words.settings.nodes_max = 2;
  return protocol::encode(agent_message(words));
}

void say_in_pieces(fixture& f, raw_peer& peer, const std::string& line) {
  for (const char byte : line) {
    peer.say({&byte, 1});
    tests::run_ready(f.io);
  }
}

}  // namespace

TEST_CASE("a tether at the daemon's port is the leader's, from its first byte") {
  leader here;
  fixture f(here.options());
  held_socket tether;
  here.tether = &tether;
  const std::string line = protocol::encode(agent_message(tether_hello{7, 1, {0, 1}, 1, 0}));
  raw_peer peer(f.io, f.port);
  say_in_pieces(f, peer, line);
  REQUIRE(run_until(f.io, [&] { return tether.has_value(); }));
  // The next byte from the peer is seen, too: the socket no longer waits for a certain number of
  // bytes.
  peer.say("x");
  std::string heard(line.size() + 1, ' ');
  bool is_read = false;
  boost::asio::async_read(*tether, boost::asio::buffer(heard), [&](error_code error, std::size_t) {
    CHECK_FALSE(error);
    is_read = true;
  });
  REQUIRE(run_until(f.io, [&] { return is_read; }));
  CHECK(heard == line + "x");
  CHECK(f.daemon->agent_count() == 0);
}

TEST_CASE("an agent is the daemon's, where tethers are the leader's, in any pieces") {
  leader here;
  fixture f(here.options());
  held_socket tether;
  here.tether = &tether;
  raw_peer peer(f.io, f.port);
  say_in_pieces(f, peer, any_hello_line());
  REQUIRE(f.hears(peer, R"("type":"welcome")"));
  CHECK_FALSE(tether);
}
