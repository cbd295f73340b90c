// How each worker of a round has ended at this node. It is reported once all have.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/rank_ends.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace ddprun::core {

class local_ends {
 public:
  // The workers are started now.
  void begin(machine_time now) { began_ = now; }
  // How long ago they were started; zero: they were not.
  duration ran(machine_time now) const { return began_ ? now - *began_ : duration::zero(); }
  void set_well(std::uint32_t local_rank, ending how, machine_time now) {
    add(local_rank, how, now);
  }
  // The end of the worker that this cause describes.
  void set(const cause& why, ending how, machine_time now) {
    add(*why.local_rank, how, now - std::max(why.age, duration::zero()));
    const bool is_known = how == ending::failed || how == ending::secondary;
    if (is_known && why.kind == cause_class::exit) ends_.back().code = why.code;
    if (is_known && why.kind == cause_class::signal) ends_.back().code = -why.code;
    if (std::abs(ends_.back().code) > end_code_max) ends_.back().code = 0;
  }
  std::vector<ended_ranks> tell(std::uint32_t rank_first) const {
    std::vector<ended_ranks> told = ends_;
    for (ended_ranks& one : told) {
      one.first += rank_first;
      one.last += rank_first;
    }
    return merged(std::move(told));
  }

 private:
  void add(std::uint32_t local_rank, ending how, machine_time at) {
    using std::chrono::milliseconds;
    const auto after = std::chrono::duration_cast<milliseconds>(at - began_.value_or(at));
    const milliseconds shown = std::max(after, milliseconds::zero());
    ends_.push_back({how, local_rank, local_rank, end_times{shown, shown}});
  }

  std::optional<machine_time> began_;
  std::vector<ended_ranks> ends_;
};

}  // namespace ddprun::core
