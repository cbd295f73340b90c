// The worker_timers are those that workers have set for themselves, and want to be ended by if they
// have not released them in time. A process has any number of them, each for a scope; what it sets
// again for the same scope counts anew.
//
// Workers say when a timer expires by the clock that people set. That is made a time from now when
// it is heard: a clock that is put right later ends no worker.
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
  duration limit{};  // for which it was set
  int signal = 0;    // 0: its process wants none
};

class worker_timers {
 public:
  static constexpr std::size_t count_max = 10'000;
  // A look that is this late means that we stood still, as the workers may have: they get that
  // moment more.
  static constexpr duration stall = std::chrono::seconds(1);
  static constexpr duration moment_after_stall = std::chrono::seconds(1);

  // `unix_now`: the same moment as people's clock has it. False: there are too many already, and
  // this one is left out.
  bool take(const timer_request& request, time_point now, double unix_now);

  std::optional<time_point> next_deadline() const;

  // Of each process with any: the first that names a signal, else the first. With such a one all
  // timers of its process are gone; else those that have expired.
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
