// The embedded daemon is a ddprun-rendezvous inside this agent: for one node without an endpoint,
// and where the endpoint is this host and nobody listens there.
//
// Whether it is to live here is asked anew for each try to connect: a name may stand for this host
// only later, and who held the daemon may leave or die. Of several agents of one host that ask at
// once the port lets one have it; the others find it taken, and connect. A look-up holds up the
// first try alone: it counts for the next one.
//
// It dies with its agent. What it must know of a run that was on then it finds in its journal
// (rendezvous/DESIGN.md); a run that is new there waits for nobody, and agents of an earlier daemon
// that come all the same are taken in while nobody has been placed.
//
// Thread rule: made and called by the main thread; its sockets live on the socket thread.
#pragma once

#include "launcher/agent/socket_thread.hpp"
#include "launcher/cli/options.hpp"
#include "rendezvous/core/messages/types.hpp"
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
  std::vector<std::uint16_t> more_ports;  // tried in this order where another program has that one
  bool standalone = false;
  embed_policy embed = embed_policy::automatic;
  std::uint32_t nodes_max = 1;    // that may connect, spares among them
  std::uint32_t own_workers = 1;  // for which descriptors are kept back
  opened_run opened_by;           // the run of this agent, and its job
  bool allows_other_users = false;
  // The static rendezvous: all nodes are told the endpoint, and the daemon listens there and on
  // loopback only. `round_service` takes the clients of TCPStore and the tethers, on the socket
  // thread.
  bool is_static = false;
  std::function<void(net::tcp::socket socket)> round_service;
};

// Where the agent is to connect. `problem`: nowhere, and why; `error`: the same, where the port
// could not be opened.
struct daemon_place {
  std::string host;
  std::uint16_t port = 0;
  std::string problem = {};
  error_code error = {};
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

  // Before the first try to connect. Decides whether the daemon is to live here, and opens it then;
  // `found` is called from the loop of the main thread.
  void find(place_handler found);
  // Before that: at this port of the endpoint's host the daemon has been found.
  void is_at(std::uint16_t port) { search_.endpoint.port = port; }
  // Before a later one, `delay` from now. A daemon that is opened then belongs to `job`; none: to
  // what it did before. It serves whoever was served at that endpoint before, however many: it may
  // hold what this process has room for beside `of_round` connections of a round that is open. What
  // cannot be opened is looked for where it was, too: `found` gets no problem.
  void find_again(duration delay, std::optional<started_job> job, std::size_t of_round,
                  place_handler found);
  // No answer is wanted any more.
  void stop_finding();

  bool hosts() const { return hosts_; }
  // One may be opened here where none answers, as far as is known now.
  bool may_host() const {
    return !search_.standalone && (search_.embed == embed_policy::always ||
                                   (search_.embed == embed_policy::automatic && is_own_));
  }
  // How many it may hold; 0 where it does not live here.
  std::size_t connections_max() const { return hosts_ ? connections_max_ : 0; }

  // Calls `named`, from the loop of the main thread, with the names of some of the agents that are
  // connected, and of which run where that is not `own_run`; and how many those are in all. Not
  // where there are none, or no daemon is here.
  using names_handler =
      std::function<void(const std::vector<std::string>& names, std::size_t count)>;
  void name_agents(const std::string& own_run, names_handler named);

  // Lets the other agents leave first: waits until nobody is connected, at most `linger`, then
  // closes; then `done`, from the loop of the main thread.
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
  place_handler found_;             // none: nobody asks
  bool is_own_ = false;             // the endpoint is this host, as far as is known
  bool is_looking_ = false;         // whether it is
  bool is_first_ = true;            // nothing was found yet
  bool waits_for_look_up_ = false;  // the first try does
  bool has_warned_ = false;         // of what is not well with this host
  std::int64_t tries_left_ = 0;
  std::unique_ptr<server::server> server_;  // used on the socket thread only, once it is open
  daemon_place own_place_;                  // where it is reached, once it is open
  bool hosts_ = false;
  std::size_t connections_max_ = 0;
  std::size_t of_round_ = 0;            // connections that are kept back for it
  std::vector<std::string> addresses_;  // where it listens; empty: everywhere
};

}  // namespace ddprun::launcher
