// The true time of a simulated world, and its pending events. Events of one moment happen in the
// order in which they were scheduled, so a schedule depends on nothing but its seed.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace ddprun::simulation {

// True time since the world began. No process ever sees it: each has its own clock.
using moment = duration;

class timeline {
 public:
  moment now() const { return now_; }
  std::uint64_t events_run() const { return events_run_; }

  void at(moment when, std::function<void()> what) {
    heap_.push_back({std::max(when, now_), ++order_, std::move(what)});
    std::push_heap(heap_.begin(), heap_.end());
  }
  void after(duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  // Runs the next event and returns true, unless that event lies after `end`: then the time becomes
  // `end`, and this returns false.
  bool run_next(moment end) {
    if (heap_.empty() || heap_.front().when > end) {
      now_ = std::max(now_, end);
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end());
    entry next = std::move(heap_.back());
    heap_.pop_back();
    now_ = next.when;
    ++events_run_;
    next.what();
    return true;
  }

 private:
  struct entry {
    moment when{};
    std::uint64_t order = 0;
    std::function<void()> what;
    bool operator<(const entry& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  moment now_{};
  std::uint64_t order_ = 0;
  std::uint64_t events_run_ = 0;
  std::vector<entry> heap_;
};

// A process's monotonic clock: it starts anywhere, and runs fast or slow by `parts_per_million`.
class local_clock {
 public:
  local_clock(duration base, std::int64_t parts_per_million)
      : base_(base), parts_per_million_(parts_per_million) {}

  time_point read(moment now) const {
    const auto ticks = now.count();
    const auto gained =
        ticks / 1'000'000 * parts_per_million_ + ticks % 1'000'000 * parts_per_million_ / 1'000'000;
    return time_point(base_ + duration(ticks + gained));
  }

  // A moment at which `read` is `local`, or a few nanoseconds before or after it.
  moment true_time(time_point local) const {
    const std::int64_t ticks = (local.time_since_epoch() - base_).count();
    const std::int64_t rate = 1'000'000 + parts_per_million_;
    return duration(ticks / rate * 1'000'000 + ticks % rate * 1'000'000 / rate + 1);
  }

  // The machine stood still from `since` to `now`, and its clock with it.
  void stood_still(moment since, moment now) { base_ -= read(now) - read(since); }

  // How long `local` by this clock lasts in truth.
  duration true_duration(duration local) const {
    return true_time(time_point(base_ + local)) - true_time(time_point(base_));
  }

 private:
  duration base_;
  std::int64_t parts_per_million_;
};

}  // namespace ddprun::simulation
