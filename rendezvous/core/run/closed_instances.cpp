#include "rendezvous/core/run/closed_instances.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

bool leftovers::complete_success(const status& said) {
  DDPRUN_ASSERT(said.place);
  if (said.round < round) return false;
  if (said.round > round) succeeded.clear();
  round = said.round;
  succeeded.insert(said.place->slot);
  return succeeded.size() >= said.place->group_world_size;
}

void leftovers::let_go(time_point now) {
  if (std::exchange(is_held, false)) until = std::min(until, now + let_go_limit);
}

void closed_instances::add(closed_instance newest) {
  closed_.push_front(std::move(newest));
  if (closed_.size() > closed_instances_max) closed_.pop_back();
}

void closed_instances::forget_old(time_point now) {
  closed_.remove_if([now](const closed_instance& one) { return one.is_old(now); });
}

const closed_instance& closed_instances::newest() const {
  DDPRUN_ASSERT(!closed_.empty());
  return closed_.front();
}

bool closed_instances::are_all_old(time_point now) const {
  return std::all_of(closed_.begin(), closed_.end(),
                     [now](const closed_instance& one) { return one.is_old(now); });
}

std::size_t closed_instances::absent_count() const {
  std::size_t count = 0;
  for (const closed_instance& one : closed_)
    count += one.absent.size();
  return count;
}

closed_instance* closed_instances::of(const hello& greeting, time_point now) {
  const instance_id said = greeting.state.instance;
  for (closed_instance& one : closed_) {
    if (one.is_old(now)) continue;
    if (said == one.instance || (said == 0 && one.absent.contains(greeting.session))) return &one;
  }
  return nullptr;
}

void closed_instances::said_goodbye(const session_id& session) {
  for (closed_instance& one : closed_)
    one.absent.erase(session);
}

void closed_instances::take_out(const session_id& session, instance_id instance, bool has_let_go,
                                time_point now) {
  for (closed_instance& one : closed_) {
    leftovers& left = one.left;
    const bool was_left = left.sessions.erase(session) != 0;
    if (!was_left && one.instance != instance && !one.absent.contains(session)) continue;
    if (has_let_go) left.let_go(now);
    if (left.sessions.empty() && left.unknown == 0) left.until = {};
  }
}

bool closed_instances::has_let_go(instance_id instance) const {
  return std::any_of(closed_.begin(), closed_.end(), [instance](const closed_instance& one) {
    return one.instance == instance && !one.left.is_held;
  });
}

void closed_instances::forget_living() {
  for (closed_instance& one : closed_)
    one.left.until = {};
}

time_point closed_instances::living_until() const {
  time_point until{};
  for (const closed_instance& one : closed_)
    until = std::max(until, one.left.until);
  return until;
}

}  // namespace ddprun::core
