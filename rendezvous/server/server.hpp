// A server is a whole rendezvous daemon on a given loop: one port with agents, TCPStore and HTTP
// on it. `ddprun-rendezvous` is this and a command line; an agent that hosts the daemon has one on
// its socket thread.
//
//   server daemon(context.get_executor(), {.port = 0, .daemon = {.recovery_window = 0s}});
//   std::string problem;
//   const auto port = daemon.start(problem);
//
// TCPStore clients share one keyspace, as with torchrun's c10d rendezvous; jobs have their own.
//
// Each protocol has a share of the connections that the others cannot take (port_shares.hpp). Where
// a share is full, the oldest goes of those that have not shown yet what they are good for: who has
// said nothing, or half a hello; a TCPStore client that has stored nothing and asked for nothing;
// who sends no whole request over HTTP, or does not take the answer.
//
// Thread rule: one thread, that of the executor, but for TCPStore, which has one of its own so that
// its traffic holds up no heartbeat. Destroy it before its io_context. Ownership: of all its
// connections, which `stop` closes at once.
#pragma once

#include "rendezvous/net/listener.hpp"
#include "rendezvous/server/daemon_shell.hpp"
#include "rendezvous/server/http_session.hpp"
#include "rendezvous/server/port_shares.hpp"
#include "rendezvous/server/protocol_router.hpp"
#include "rendezvous/store/keyspace.hpp"
#include "rendezvous/store/store_thread.hpp"

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::server {

struct server_options {
  std::string bind_address;  // numeric; empty: all, IPv6 and IPv4
  // Beside that, on the same port. Loopback among them may be one that this host does not have.
  std::vector<std::string> more_addresses;
  std::uint16_t port = 29400;  // 0 picks a free one
  // In place of these: sockets that listen already, which are the server's from its start on.
  std::vector<int> open_sockets;
  std::size_t connections_max = 0;  // of all kinds; 0: what the limit of open files leaves
  daemon_shell_options daemon;      // its log takes the lines of all parts
  // A journal that another daemon has is an error, and not done without.
  bool journal_is_ours = false;
  // Of the keyspace that all TCPStore clients share; its bytes are for requests and replies that
  // are under way, too.
  core::store_limits store_limits;
  // Takes the clients of TCPStore in place of that keyspace; it counts and limits them, too.
  protocol_router_handlers::take tcpstore;
  // Takes the tethers of a leader that is in the same process; empty: they are refused.
  protocol_router_handlers::take tether;
  net::keep_alive keep_alive;
};

class server {
 public:
  server(net::executor where, server_options options);
  ~server() { stop(); }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Listens and serves; the port. Once. On failure `problem` is one line with address, port and
  // the system's words.
  result<std::uint16_t> start(std::string& problem);
  // The same for a loop that must not wait for the disk of the journal: it listens, and `serving`
  // comes from the loop, or at once, when it serves at this port. Whoever dials meanwhile is
  // accepted then. A journal that another daemon has is done without.
  using serving_handler = std::function<void(std::uint16_t port)>;
  error_code start_in_background(std::string& problem, serving_handler serving);

  // Stops listening and closes every connection at once, but for answers over HTTP, which have
  // their ten seconds to leave. For good.
  void stop();

  std::size_t agent_count() const { return shell_->agent_count(); }
  // How many of them have said hello, and are not on their way out; and the first `most` of these.
  std::size_t joined_count() const { return shell_->joined_count(); }
  std::vector<std::string> joined_names(std::size_t most, const std::string& own_run) const {
    return shell_->joined_names(most, own_run);
  }
  // Calls `handler` once, from the loop, when no agent is connected.
  void when_no_agents(std::function<void()> handler) { shell_->when_no_agents(std::move(handler)); }

 private:
  result<std::uint16_t> listen(std::string& problem);
  void serve();
  result<std::uint16_t> adopt_sockets(std::string& problem);
  void accept(net::tcp::socket socket);
  void accept_store(net::tcp::socket socket);
  void accept_http(net::tcp::socket socket);
  peer_counts counts() const;
  bool has_room(peer_kind kind) const { return shares_.admit(kind, counts()); }
  void turn_away(peer_kind kind, const std::string& who);
  void log(note_level level, const std::string& text) const;

  server_options options_;
  port_shares shares_;
  std::shared_ptr<evictable_peers> newcomers_ = std::make_shared<evictable_peers>();
  net::executor executor_;
  std::list<net::listener> listeners_;
  protocol_router door_;
  std::shared_ptr<daemon_shell> shell_;  // HTTP sessions look whether it is still there
  std::shared_ptr<store::keyspace> space_;
  store::store_thread store_;
  log_limit store_refusals_;
  std::array<log_limit, peer_kinds> turned_away_;
  std::shared_ptr<evictable_peers> readers_ = std::make_shared<evictable_peers>();  // over HTTP
  std::shared_ptr<http_pace> http_pace_ = std::make_shared<http_pace>();
};

}  // namespace ddprun::server
