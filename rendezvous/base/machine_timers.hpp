// A machine's timers: a table with one row for each. A row computes from the machine's state when
// it is due, and says what is done then. So nothing has to be armed or cancelled where the state
// changes, and the caller is woken for exactly what the machine then checks.
#pragma once

#include "rendezvous/base/machine_clock.hpp"

#include <optional>
#include <variant>

namespace ddprun {

// When a timer is due, on the machine's clock or in real time. Empty: it is not armed.
class timer_moment {
 public:
  timer_moment(std::nullopt_t) {}             // NOLINT(google-explicit-constructor)
  timer_moment(machine_time at) : at_(at) {}  // NOLINT(google-explicit-constructor)
  timer_moment(time_point at) : at_(at) {}    // NOLINT(google-explicit-constructor)
  template <typename Moment>
  timer_moment(const std::optional<Moment>& at) {  // NOLINT(google-explicit-constructor)
    if (at) at_ = *at;
  }

  std::optional<time_point> real(const machine_clock& clock) const {
    if (const auto* const own = std::get_if<machine_time>(&at_)) return clock.real(*own);
    if (const auto* const real = std::get_if<time_point>(&at_)) return *real;
    return std::nullopt;
  }

 private:
  std::variant<std::monostate, machine_time, time_point> at_;
};

// A machine has a `clock` and a table of these.
template <typename Machine>
struct machine_timer {
  timer_moment (*at)(const Machine&);
  // Null: the machine checks this after every event anyway.
  void (Machine::*on_due)() = nullptr;
};

// When the first row is due, in real time; empty: no row is armed.
template <typename Machine, typename Table>
std::optional<time_point> next_due(const Machine& machine, const Table& table) {
  std::optional<time_point> next;
  for (const machine_timer<Machine>& one : table) {
    const std::optional<time_point> at = one.at(machine).real(machine.clock);
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

// Evaluates a row when its turn comes, because the rows before it may have armed or cancelled it.
template <typename Machine>
void do_if_due(Machine& machine, const machine_timer<Machine>& one) {
  if (one.on_due == nullptr) return;
  const std::optional<time_point> at = one.at(machine).real(machine.clock);
  if (at && machine.clock.real_now() >= *at) (machine.*one.on_due)();
}

}  // namespace ddprun
