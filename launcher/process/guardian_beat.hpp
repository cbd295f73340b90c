// Decides when an agent's beats go to its guardian: at most once per second, or eight times per
// isolation limit, except that a beat which shortens the time goes at once. While nothing changes,
// there is no wake-up.
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

  // Until when the workers may live without another call; none: without limit. Call it at each
  // change: before an action that starts something, after one that ends something.
  void allow_until(std::optional<time_point> until);

 private:
  void send();

  guardian& guardian_;
  const duration interval_;
  boost::asio::steady_timer timer_;
  std::optional<time_point> wanted_;
  std::optional<time_point> sent_;
  time_point sent_at_{};
  bool is_waiting_ = false;  // for the end of the interval
};

}  // namespace ddprun::launcher
