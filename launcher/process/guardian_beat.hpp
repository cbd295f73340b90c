// When an agent's beats go to its guardian: at most one a second, or eight in an isolation limit,
// but one that takes time away goes at once. They cost no wake-up while nothing changes.
//
// Thread rule: the thread that runs the executor. Ownership: `to` must outlive it.
#pragma once

#include "launcher/process/guardian.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/steady_timer.hpp>

#include <optional>

namespace ddprun::launcher {

class guardian_beat {
 public:
  guardian_beat(boost::asio::any_io_executor executor, guardian& to, duration isolation_limit);

  // Until when the workers may live if nothing more is said; none: without limit. To be said at
  // each change: before what begins something that may live, after what ends it.
  void allow_until(std::optional<time_point> until);

 private:
  void send();

  guardian& guardian_;
  const duration interval_;
  boost::asio::steady_timer timer_;
  std::optional<time_point> wanted_;
  std::optional<time_point> sent_;
  time_point sent_at_{};
  bool is_waiting_ = false;  // for its turn
};

}  // namespace ddprun::launcher
