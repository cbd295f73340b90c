// A server is a complete rendezvous daemon on a given loop: one port for agents, TCPStore and HTTP.
// `ddprun-rendezvous` adds a command line to it; an agent that hosts the daemon runs one on its
// socket thread.
//
//   server daemon(context.get_executor(), {.port = 0, .daemon = {.recovery_window = 0s}});
//   std::string problem;
//   const auto port = daemon.start(problem);
//
// TCPStore clients share one keyspace, as with torchrun's c10d rendezvous; each job has its own as
// well.
//
// Each protocol has a share of the connections that others cannot take (port_shares.hpp). If it is
// full, the oldest connection without useful activity is closed: one that has sent nothing or half
// a hello, a TCPStore client that has stored and read nothing, or an HTTP peer that does not
// complete its request or does not read the answer.
//
// Thread rule: one thread, that of the executor. TCPStore has its own thread, so that its traffic
// delays no heartbeat. Destroy it before its io_context. Ownership: owns its connections, which
// `stop` closes at once.
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
  // More addresses for the same port. A loopback address that this host lacks is skipped.
  std::vector<std::string> more_addresses;
  std::uint16_t port = 29400;  // 0 picks a free one
  // Sockets that already listen, used instead of these; the server owns them from its start on.
  std::vector<int> open_sockets;
  std::size_t connections_max = 0;  // of all kinds; 0: as the limit of open files allows
  daemon_shell_options daemon;      // its `log` gets the messages of all parts
  // Whether it is an error if another daemon has the journal; otherwise the daemon runs without
  // one.
  bool journal_is_ours = false;
  // For the keyspace that all TCPStore clients share, its requests and replies in progress
  // included.
  core::store_limits store_limits;
  // Takes TCPStore clients instead of that keyspace, and must count and limit them itself.
  protocol_router_handlers::take tcpstore;
  // Takes the tethers of a leader in the same process; empty: tethers are refused.
  protocol_router_handlers::take tether;
  net::keep_alive keep_alive;
};

class server {
 public:
  server(net::executor where, server_options options);
  ~server() { stop(); }
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  // Listens and serves; returns the port. Call it once. On failure `problem` is one line with
  // address, port and the system's error.
  result<std::uint16_t> start(std::string& problem);
  // The same for a loop that must not wait for the journal's disk. It listens, and calls `serving`
  // from the loop, or at once, when it serves on this port. Connections that arrive before are
  // accepted then. If another daemon has the journal, it runs without.
  using serving_handler = std::function<void(std::uint16_t port)>;
  error_code start_in_background(std::string& problem, serving_handler serving);

  // Stops listening for good and closes every connection at once, except HTTP answers, which have
  // their ten seconds to leave.
  void stop();

  std::size_t agent_count() const { return shell_->agent_count(); }
  // How many agents have said hello and are not leaving; and the names of the first `most` of them.
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
  std::shared_ptr<daemon_shell> shell_;  // HTTP sessions hold weak references to it
  std::shared_ptr<store::keyspace> space_;
  store::store_thread store_;
  log_limit store_refusals_;
  std::array<log_limit, peer_kinds> turned_away_;
  std::shared_ptr<evictable_peers> readers_ = std::make_shared<evictable_peers>();  // HTTP peers
  std::shared_ptr<http_pace> http_pace_ = std::make_shared<http_pace>();
};

}  // namespace ddprun::server
