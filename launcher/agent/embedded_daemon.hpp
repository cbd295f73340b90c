// The embedded daemon is a ddprun-rendezvous inside this agent: for a single node without an
// endpoint, and if the endpoint is this host and no daemon listens there.
//
// Each attempt to connect decides anew whether it should be here, because a name may point to this
// host only later, and the agent that held the daemon may leave or die. If several agents of one
// host try at once, only one gets the port; the others find it in use, and connect. A name lookup
// delays only the first attempt; later ones use the last answer.
//
// It dies with its agent. What the next daemon must know about a run that was active is in its
// journal (rendezvous/DESIGN.md). A run that is new there waits for no node; agents of an earlier
// daemon that still come are accepted until ranks are assigned.
//
// Thread rule: made and called by the main thread; its sockets are on the socket thread.
#pragma once

#include "launcher/agent/socket_thread.hpp"
#include "launcher/cli/options.hpp"
#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/resolve.hpp"
#include "rendezvous/server/server.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct daemon_search {
  cli::endpoint_address endpoint;
  std::vector<std::uint16_t>
      more_ports;  // tried in this order if another program has the first one
  bool standalone = false;
  embed_policy embed = embed_policy::automatic;
  std::uint32_t nodes_max = 1;    // that may connect, including spares
  std::uint32_t own_workers = 1;  // for which descriptors are reserved
  opened_run opened_by;           // this agent's run and job
  bool allows_other_users = false;
  // The static rendezvous: all nodes know the endpoint, and the daemon listens only there and on
  // loopback. `round_service` gets the connections of TCPStore clients and tethers, on the socket
  // thread.
  bool is_static = false;
  std::function<void(net::tcp::socket socket)> round_service;
};

// Where to connect. `problem`: why there is no place; `error`: its error if the port could not be
// opened; `exit_code`: with which this node then ends.
struct daemon_place {
  std::string host;
  std::uint16_t port = 0;
  std::string problem = {};
  error_code error = {};
  int exit_code = failed_exit_code;
};

class embedded_daemon {
 public:
  using log_handler = std::function<void(note_level level, const std::string& text)>;
  using place_handler = std::function<void(daemon_place place)>;

  embedded_daemon(boost::asio::any_io_executor main, socket_thread& thread, daemon_search search,
                  log_handler log);
  ~embedded_daemon();
  embedded_daemon(const embedded_daemon&) = delete;
  embedded_daemon& operator=(const embedded_daemon&) = delete;

  // For the first attempt. Decides whether the daemon should be here, and if so opens it; `found`
  // is called from the loop of the main thread.
  void find(place_handler found);
  // Call it before find(): the daemon was found at this port of the endpoint's host.
  void is_at(std::uint16_t port) { search_.endpoint.port = port; }
  // For a later attempt, `delay` from now. A daemon that is opened then belongs to `job`; none: to
  // the same job as before. It serves any number of agents that were served at that endpoint
  // before, so it may hold all connections that this process can open beside `of_round` connections
  // of an open round. If it cannot be opened, the attempt goes to the old place: `found` gets no
  // problem.
  void find_again(duration delay, std::optional<started_job> job, std::size_t of_round,
                  place_handler found);
  // Cancels the call of `found`.
  void stop_finding();

  bool hosts() const { return hosts_; }
  // True if a daemon may be opened here when none answers, as far as is known now.
  bool may_host() const {
    return !search_.standalone && (search_.embed == embed_policy::always ||
                                   (search_.embed == embed_policy::automatic && is_own_));
  }
  // The connections that it may hold; 0 if it is not here.
  std::size_t connections_max() const { return hosts_ ? connections_max_ : 0; }

  // Calls `named`, from the loop of the main thread, with the names of some connected agents (with
  // the run, if it is not `own_run`), and the number of all. Not called if there are none, or no
  // daemon is here.
  using names_handler =
      std::function<void(const std::vector<std::string>& names, std::size_t count)>;
  void name_agents(const std::string& own_run, names_handler named);

  // Waits until no agent is connected, at most `linger`, and closes the daemon; then calls `done`
  // from the loop of the main thread.
  void close(duration linger, std::function<void()> done);

 private:
  void look_up();
  void looked_up(error_code error, const net::endpoints& endpoints);
  void know(bool is_own);
  void decide();
  void open();
  void opened(const result<std::uint16_t>& port, const std::string& problem);
  bool try_again(const std::string& problem);
  bool take_next_port();
  void answer(daemon_place place);
  bool prepare_to_open();
  server::server_options options_of_server();

  boost::asio::any_io_executor main_;
  socket_thread& thread_;
  daemon_search search_;
  log_handler log_;
  net::resolver resolver_;
  boost::asio::steady_timer retry_;
  place_handler found_;             // none: no attempt is waiting
  bool is_own_ = false;             // the endpoint is this host, as far as is known
  bool is_looking_ = false;         // a lookup is in progress
  bool is_first_ = true;            // before the first attempt has ended
  bool waits_for_look_up_ = false;  // the first attempt waits for the lookup
  bool has_warned_ = false;         // about this host
  std::int64_t tries_left_ = 0;
  std::unique_ptr<server::server> server_;  // once open, used on the socket thread only
  daemon_place own_place_;                  // where it is reached, once it is open
  bool hosts_ = false;
  std::size_t connections_max_ = 0;
  std::size_t of_round_ = 0;            // connections reserved for the open round
  std::vector<std::string> addresses_;  // where it listens; empty: everywhere
};

}  // namespace ddprun::launcher
