// What a service manager (systemd) gives a daemon that it starts, and hears from it: sockets that
// are open already, and that the daemon is ready, is alive, or is about to end.
//
// Sources: sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3) of systemd 252. They are a few
// variables and datagrams, so libsystemd is not linked.
//
// Thread rule: one thread, that of the executor. Nothing here waits, but for room in the manager's
// queue when it is told that the daemon is ready or ends.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"
#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/net/types.hpp"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::server {

// The sockets that were handed to process `self` (LISTEN_PID, LISTEN_FDS), from descriptor 3 on;
// none where they were meant for another. From now on programs that this one starts have them not.
cli::parsed<std::vector<int>> inherited_sockets(const environment_map& environment, pid_t self);

// How often the manager wants to hear that process `self` is alive (WATCHDOG_USEC); zero: never.
duration watchdog_interval(const environment_map& environment, pid_t self);

class service_manager {
 public:
  service_manager(net::executor where, const environment_map& environment, pid_t self);
  ~service_manager() { stop(); }
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  // That it serves from now on; and then, twice in each interval, that its loop is alive, with what
  // `status` says, one line. What could not be said, or empty: without a manager there is nobody to
  // tell.
  std::string ready(std::function<std::string()> status);
  // That it ends by its own will. The last word.
  void stopping();

 private:
  void stop() { timer_.cancel(); }
  void go_on();
  std::string say(const std::string& words, int flags) const;

  std::string address_;  // empty: nobody listens
  duration interval_;
  boost::asio::steady_timer timer_;
  std::function<std::string()> status_;
};

}  // namespace ddprun::server
