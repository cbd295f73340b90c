// The daemon_finder finds the rendezvous daemon that this node dials: at the endpoint, or in this
// process, where it opens one if none is there (embedded_daemon.hpp). If the daemon may be at one
// of several ports of a host, a node that opens none first looks for its run there; the port at
// which the run was found is the endpoint from then on.
//
// Thread rule: made and called by the main thread; handlers are called from its loop. Ownership:
// the socket thread must outlive it, and ends with it.
#pragma once

#include "launcher/agent/embedded_daemon.hpp"
#include "launcher/agent/socket_thread.hpp"
#include "launcher/network/port_search.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

class daemon_finder {
 public:
  using log_handler = embedded_daemon::log_handler;
  using place_handler = embedded_daemon::place_handler;

  // `search_limit`: how long to look for the run at several ports.
  daemon_finder(boost::asio::any_io_executor main, socket_thread& thread, daemon_search search,
                duration search_limit, log_handler log);

  // For the first attempt to connect. `found` gets a problem if there is no place to dial.
  void find(place_handler found);
  // For a later one; see embedded_daemon::find_again.
  void find_again(duration delay, std::optional<started_job> job, std::size_t of_round,
                  place_handler found);
  // Cancels the call of `found`.
  void stop();

  // The place that was found last; empty: none yet.
  const daemon_place& place() const { return place_; }
  // The daemon in this process, if there is one.
  embedded_daemon& embedded() { return embedded_; }
  const embedded_daemon& embedded() const { return embedded_; }

 private:
  void search_ports(place_handler found);
  void say_search(duration after);
  void open_or_dial(place_handler found);

  boost::asio::any_io_executor main_;
  duration search_limit_;
  log_handler log_;
  cli::endpoint_address endpoint_;
  std::vector<std::uint16_t> ports_;  // where the run is searched; empty: it is not
  std::string run_id_;
  bool is_static_;
  embedded_daemon embedded_;
  std::optional<port_search> search_;    // none: there is nothing to search
  boost::asio::steady_timer say_timer_;  // the next message about the search
  bool is_searching_ = false;
  daemon_place place_;
};

}  // namespace ddprun::launcher
