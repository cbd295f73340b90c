#include "worker/training/decisions.hpp"

#include <stdexcept>

namespace ddprun::worker {
namespace {

bool is_due(std::uint64_t count, std::uint64_t every) {
  return every != 0 && count % every == 0;
}

}  // namespace

loop_decisions::loop_decisions(const save_times& when, std::uint64_t ask_interval,
                               std::uint32_t rank, time_point now)
    : when_(when), ask_interval_(ask_interval), has_the_clock_(rank == 0), saved_at_(now) {
  if (ask_interval == 0) {
    throw std::invalid_argument("loop_decisions: ask_interval is 0, and must be at least 1");
  }
}

loop_word loop_decisions::word(bool stop_has_come, time_point now) const {
  const bool is_timed = has_the_clock_ && when_.interval.count() > 0;
  return {stop_has_come, is_timed && now - saved_at_ >= when_.interval};
}

bool loop_decisions::asks(const loop_moment& at) const {
  return !at.ends_epoch && is_due(at.step, ask_interval_);
}

loop_decision loop_decisions::decide(const loop_moment& at, const loop_word& of_all,
                                     time_point now) {
  loop_decision made;
  // After the last step there is nothing left to stop.
  made.stops = of_all.stop_has_come && !at.ends_all;
  made.saves = of_all.stop_has_come || of_all.save_is_due || is_due(at.step, when_.steps) ||
               (at.ends_epoch && (at.ends_all || is_due(at.epoch, when_.epochs)));
  made.saves_in_vault = !made.saves && is_due(at.step, when_.vault_steps);
  if (made.saves) saved_at_ = now;
  return made;
}

}  // namespace ddprun::worker
