#include "rendezvous/core/messages/message_types.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace ddprun {

std::string_view to_string(member_phase phase) {
  switch (phase) {
    case member_phase::joined:
      return "joined";
    case member_phase::preparing:
      return "preparing";
    case member_phase::assigned:
      return "assigned";
    case member_phase::starting:
      return "starting";
    case member_phase::running:
      return "running";
    case member_phase::succeeded:
      return "succeeded";
    case member_phase::failed:
      return "failed";
    case member_phase::stopping:
      return "stopping";
    case member_phase::stopped:
      return "stopped";
    case member_phase::lost:
      return "lost";
  }
  return "unknown";
}

std::string_view to_string(run_phase phase) {
  switch (phase) {
    case run_phase::gathering:
      return "gathering";
    case run_phase::settling:
      return "settling";
    case run_phase::preparing:
      return "preparing";
    case run_phase::running:
      return "running";
    case run_phase::stopping:
      return "stopping";
    case run_phase::closed:
      return "closed";
  }
  return "unknown";
}

std::string_view to_string(desired_phase phase) {
  switch (phase) {
    case desired_phase::wait:
      return "wait";
    case desired_phase::prepare:
      return "prepare";
    case desired_phase::run:
      return "run";
    case desired_phase::stop:
      return "stop";
    case desired_phase::fence:
      return "fence";
    case desired_phase::close:
      return "close";
  }
  return "unknown";
}

std::string_view to_string(cause_class value) {
  switch (value) {
    case cause_class::exit:
      return "exit";
    case cause_class::signal:
      return "signal";
    case cause_class::start:
      return "start";
    case cause_class::hung:
      return "hung";
    case cause_class::health:
      return "health";
    case cause_class::node_lost:
      return "node_lost";
    case cause_class::drain:
      return "drain";
    case cause_class::operator_stop:
      return "operator";
  }
  return "unknown";
}

std::string_view to_string(store_mode mode) {
  return mode == store_mode::agent ? "agent" : "worker";
}

std::string_view to_string(join_policy policy) {
  return policy == join_policy::wait ? "wait" : "restart";
}

std::string_view to_string(rank_policy policy) {
  return policy == rank_policy::hint ? "hint" : "exact";
}

std::string to_string(session_id session) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(session.high),
                static_cast<unsigned long long>(session.low));
  return text.data();
}

std::string to_hex(std::uint64_t value) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  do {
    text += digits[value & 15];
    value >>= 4;
  } while (value != 0);
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace ddprun
