// What a service manager (systemd) gives to a daemon that it starts, which is open sockets, and
// what it is told: that the daemon is ready, is alive, or is about to end.
//
// Sources: sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3) of systemd 252. The protocol
// is a few variables and datagrams, so libsystemd is not linked.
//
// Thread rule: one thread, that of the executor. Nothing here blocks, except that `ready` and
// `stopping` wait for room in the manager's queue.
#pragma once

#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/net_types.hpp"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::server {

// The sockets that were passed to process `self` (LISTEN_PID, LISTEN_FDS), from descriptor 3 on;
// none if they were meant for another process. Marks them close-on-exec.
cli::parsed<std::vector<int>> inherited_sockets(const environment_map& environment, pid_t self);

// How often the manager expects a sign of life from process `self` (WATCHDOG_USEC); zero: never.
duration watchdog_interval(const environment_map& environment, pid_t self);

class service_manager {
 public:
  service_manager(net::executor where, const environment_map& environment, pid_t self);
  ~service_manager() { stop(); }
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  // Reports that the daemon serves, and from then on, twice in each interval, that its loop is
  // alive, with the one line that `status` returns. Returns what could not be reported; empty if
  // all is well or there is no manager.
  std::string ready(std::function<std::string()> status);
  // Reports that the daemon ends on purpose. Nothing is sent after this.
  void stopping();

 private:
  void stop() { timer_.cancel(); }
  void go_on();
  std::string say(const std::string& words, int flags) const;

  std::string address_;  // empty: there is no manager
  duration interval_;
  boost::asio::steady_timer timer_;
  std::function<std::string()> status_;
};

}  // namespace ddprun::server
