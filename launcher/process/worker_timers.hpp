// The worker_timers are timers that workers have set for themselves, to be killed if they do not
// release them in time. A process may have several, one for each scope; setting one again restarts
// it.
//
// A request has its expiry as a time of the system clock. That is converted to the monotonic clock
// at once, so a later correction of the system clock ends no worker.
//
// It has no clock of its own.
#pragma once

#include "launcher/process/timer_request.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher::workers {

struct expired_timer {
  std::int64_t process = 0;
  std::string scope;
  duration limit{};  // as it was set
  int signal = 0;    // 0: the process wants no signal
};

class worker_timers {
 public:
  static constexpr std::size_t count_max = 10'000;
  // A look that is this late means that this machine stood still, and perhaps the workers, too:
  // they then get some more time.
  static constexpr duration stall = std::chrono::seconds(1);
  static constexpr duration moment_after_stall = std::chrono::seconds(1);

  // `unix_now` is `now` by the system clock. False: there are too many timers, and this one is
  // ignored.
  bool take(const timer_request& request, time_point now, double unix_now);

  std::optional<time_point> next_deadline() const;

  // Returns one expired timer per process: the first with a signal, else the first. If it has a
  // signal, all timers of its process are removed; else those that have expired.
  std::vector<expired_timer> expire(time_point now);

  void keep_if(const std::function<bool(std::int64_t process)>& stays);
  void clear() { timers_.clear(); }
  std::size_t size() const { return timers_.size(); }

 private:
  struct entry {
    time_point deadline;
    duration limit;
    int signal;
  };
  std::map<std::pair<std::int64_t, std::string>, entry> timers_;
};

// "its timer "train.py#12" expired after 10 s".
std::string describe(const expired_timer& timer);

}  // namespace ddprun::launcher::workers
