#include "rendezvous/core/messages/cause.hpp"

#include "rendezvous/base/exit_codes.hpp"
#include "rendezvous/base/signals.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

namespace ddprun::core {
namespace {

// Causes that can hardly be the consequence of something on another node come first.
int weight(const cause& value) {
  // A node whose lease ran out stopped by itself, which has a cause; a stop that was obeyed has
  // none. A worker that had said why it fails, and was still exiting, has one, too.
  if (value.by_our_stop) {
    return value.kind == cause_class::node_lost || value.was_failing ? 2 : 4;
  }
  if (value.is_secondary) return 3;
  switch (value.kind) {
    case cause_class::signal:
      // SIGABRT is how NCCL's watchdog and failed assertions end a worker whose peer went away, so
      // it is as likely a consequence as a plain exit. SIGTERM is sent by people and schedulers,
      // and stays a root cause.
      return value.code == SIGABRT ? 1 : 0;
    case cause_class::start:
    case cause_class::hung:
    case cause_class::health:
    case cause_class::node_lost:
      return 0;
    case cause_class::exit:
    case cause_class::drain:
    case cause_class::operator_stop:
      return 1;
  }
  return 4;
}

bool is_planned(cause_class kind) {
  return kind == cause_class::drain || kind == cause_class::operator_stop;
}

std::string subject(const cause& value) {
  std::string text = value.node;
  if (text.empty())
    text = value.group_rank == 0 ? "a node"
                                 : "the node of group rank " + std::to_string(value.group_rank);
  if (value.rank) {
    text += ": rank " + std::to_string(*value.rank);
    if (value.local_rank) text += " (local rank " + std::to_string(*value.local_rank) + ")";
  } else if (value.local_rank) {
    text += ": local rank " + std::to_string(*value.local_rank);
  }
  return text;
}

// The parts of a sentence that end in a text which may be missing.
std::string with_text(std::string sentence, const cause& value) {
  if (!value.text.empty()) sentence += ": " + value.text;
  return sentence;
}

}  // namespace

bool comes_before(const cause& one, time_point one_at, const cause& other, time_point other_at) {
  if (is_planned(one.kind)) one_at -= planned_head_start;
  if (is_planned(other.kind)) other_at -= planned_head_start;
  return std::pair(weight(one), one_at) < std::pair(weight(other), other_at);
}

void root_cause::entry::take(const cause& one, time_point received) {
  const time_point at = received - std::clamp(one.age, duration::zero(), age_max);
  if (what && !comes_before(one, at, *what, happened)) return;
  what = one;
  happened = at;
}

void root_cause::add(const cause& seen, time_point received) {
  best_.take(seen, received);
  seen_.take(seen, received);
}

void root_cause::add_report(const cause& report, time_point received) {
  best_.take(report, received);
}

root_cause root_cause::without_reports() const {
  root_cause seen;
  seen.best_ = seen.seen_ = seen_;
  return seen;
}

bool is_end_by(const cause& value, int signal) {
  if (signal == 0) return false;
  return (value.kind == cause_class::signal && value.code == signal) ||
         (value.kind == cause_class::exit && value.code == exit_code_of_signal(signal));
}

bool is_only_stopped(const cause& value) {
  return value.by_our_stop && !value.was_failing;
}

bool is_end_by_request(const cause& value) {
  return is_end_by(value, SIGTERM) || is_end_by(value, SIGINT) || is_end_by(value, SIGHUP) ||
         is_end_by(value, SIGQUIT);
}

std::string describe(const cause& value) {
  const std::string who = subject(value);
  if (value.was_failing) return who + " had not ended yet when it was stopped: " + value.text;
  switch (value.kind) {
    case cause_class::exit:
      return with_text(who + " exited with code " + std::to_string(value.code), value);
    case cause_class::signal:
      return with_text(who + " killed by " + signal_name(value.code), value);
    case cause_class::start: {
      if (!value.text.empty()) return who + ": " + value.text;
      if (value.code != 0) return who + " could not be started: " + std::strerror(value.code);
      return who + " could not be started";
    }
    case cause_class::hung:
      return with_text(who + " hung", value);
    case cause_class::health:
      return with_text(who + " failed its health check", value);
    case cause_class::node_lost:
      return with_text(who + " was lost", value);
    case cause_class::drain:
      if (value.code == 0) return with_text(who + " leaves", value);
      return with_text(who + " leaves on " + signal_name(value.code), value);
    case cause_class::operator_stop:
      if (!value.text.empty()) return "stopped by an operator: " + value.text;
      if (value.code == 0 || value.node.empty()) return "stopped by an operator";
      return who + ": stopped by " + signal_name(value.code);
  }
  return who;
}

int exit_code_of(const cause& value) {
  if (value.was_failing) return failed_exit_code;  // as after an exception in Python
  switch (value.kind) {
    case cause_class::exit:
      // A peer may name any code, but a failed run never exits with 0.
      return value.code > 0 && value.code < 256 ? value.code : failed_exit_code;
    case cause_class::signal:
    case cause_class::drain:
    case cause_class::operator_stop:
      if (value.code > 0 && value.code < 128) return exit_code_of_signal(value.code);
      return value.kind == cause_class::signal ? failed_exit_code : exit_code_of_signal(SIGTERM);
    case cause_class::start:
    case cause_class::hung:
    case cause_class::health:
    case cause_class::node_lost:
      return failed_exit_code;
  }
  return failed_exit_code;
}

bool is_charged_as_restart(cause_class kind) {
  switch (kind) {
    case cause_class::exit:
    case cause_class::signal:
    case cause_class::start:
    case cause_class::hung:
    case cause_class::health:
      return true;
    case cause_class::node_lost:
    case cause_class::drain:
    case cause_class::operator_stop:
      return false;
  }
  return false;
}

}  // namespace ddprun::core
