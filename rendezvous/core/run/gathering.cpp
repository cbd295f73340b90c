#include "rendezvous/core/run/gathering.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/run/node.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void gathering::join(node& who) {
  if (who.group != nullptr) return;
  const run_settings& wanted = who.greeting.settings;
  auto found = std::find_if(groups_.begin(), groups_.end(), [&wanted](const settings_group& one) {
    return one.settings() == wanted;
  });
  if (found == groups_.end()) {
    found = groups_.emplace(groups_.end());
    found->settings_ = wanted;
  }
  who.group = &*found;
  ++who.group->nodes_;
}

void gathering::leave(node& who) {
  DDPRUN_ASSERT(!who.counted);
  settings_group* const group = std::exchange(who.group, nullptr);
  if (group == nullptr || --group->nodes_ != 0 || is_fixed_) return;
  groups_.remove_if([group](const settings_group& one) { return &one == group; });
}

bool gathering::count(node& who, bool is_candidate) {
  if (is_candidate == who.counted || who.group == nullptr) return false;
  who.counted = is_candidate;
  const std::uint32_t change = is_candidate ? 1 : -1U;
  who.group->here_ += change;
  here_ += change;
  DDPRUN_ASSERT(who.group->here_ <= who.group->nodes_ && who.group->here_ <= here_);
  return true;
}

std::optional<machine_time> gathering::last_call_until(const settings_group& one, machine_time now,
                                                       machine_time since) {
  if (one.here_ <= one.highest_ || !one.has_enough()) return one.last_call_until_;
  const timers& timing = one.settings_.timing;
  return std::min(now + timing.last_call_timeout, since + timing.join_timeout);
}

const settings_group* gathering::largest() const {
  const settings_group* best = nullptr;
  for (const settings_group& one : groups_) {
    if (one.here_ != 0 && (best == nullptr || one.here_ > best->here_)) best = &one;
  }
  return best;
}

bool gathering::is_ready(settings_group& one, machine_time now, machine_time since) {
  one.last_call_until_ = last_call_until(one, now, since);
  one.highest_ = std::max(one.highest_, one.here_);
  if (one.is_full()) return true;
  return one.has_enough() && one.last_call_until_ && now >= *one.last_call_until_;
}

settings_group* gathering::ready(machine_time now, machine_time since) {
  settings_group* best = nullptr;
  for (settings_group& one : groups_) {
    if (is_ready(one, now, since) && (best == nullptr || one.here_ > best->here_)) best = &one;
  }
  return best;
}

void gathering::begin_anew() {
  for (settings_group& one : groups_) {
    one.highest_ = 0;
    one.last_call_until_.reset();
  }
}

std::optional<machine_time> gathering::deadline(machine_time now) const {
  std::optional<machine_time> next;
  for (const settings_group& one : groups_) {
    const std::optional<machine_time>& until = one.last_call_until_;
    if (!one.has_enough() || !until || *until <= now) continue;
    next = next ? std::min(*next, *until) : *until;
  }
  return next;
}

void gathering::fix(settings_group& one) {
  DDPRUN_ASSERT(one.nodes_ != 0);
  is_fixed_ = true;
}

void gathering::forget_others() {
  DDPRUN_ASSERT(is_fixed_);
  groups_.remove_if([](const settings_group& one) { return one.nodes_ == 0; });
  DDPRUN_ASSERT(groups_.size() == 1);
}

void gathering::unfix() {
  is_fixed_ = false;
  groups_.remove_if([](const settings_group& one) { return one.nodes_ == 0; });
}

void gathering::clear() {
  DDPRUN_ASSERT(here_ == 0);
  *this = {};
}

}  // namespace ddprun::core
