#include "rendezvous/core/agent/workers_here.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>

namespace ddprun::core {

void workers_here::check() const {
  DDPRUN_ASSERT(unkillable_ <= living_);
  DDPRUN_ASSERT(unkillable_ == 0 || are_killed_);
  DDPRUN_ASSERT(!are_killed_ || asked_at_);
  DDPRUN_ASSERT(living_ > 0 || (!grace_until_ && !kill_until_));
  DDPRUN_ASSERT(!grace_until_ || !kill_until_);
}

void workers_here::start(std::uint32_t count) {
  DDPRUN_ASSERT(ended_.empty() && !asked_at_);
  ended_.assign(count, false);
  living_ = count;
}

bool workers_here::end(std::uint32_t local_rank) {
  if (local_rank >= ended_.size() || ended_[local_rank]) return false;
  ended_[local_rank] = true;
  --living_;
  unkillable_ = std::min(unkillable_, living_);
  if (living_ == 0) {
    grace_until_.reset();
    kill_until_.reset();
  }
  check();
  return true;
}

bool workers_here::ask(const machine_clock& clock, duration grace) {
  DDPRUN_ASSERT(living_ > 0);
  const bool is_first = !asked_at_;
  if (is_first) {
    asked_at_ = clock.real_now();
    grace_until_ = clock.now() + grace;
  } else if (grace_until_) {
    grace_until_ = std::min(*grace_until_, clock.now() + grace);
  }
  check();
  return is_first;
}

void workers_here::spare(const machine_clock& clock, duration for_now, duration most) {
  if (!grace_until_ || !may_be_spared_) return;
  const machine_time until = std::min(clock.now() + for_now, clock.own(*asked_at_ + most));
  grace_until_ = std::max(*grace_until_, until);
}

bool workers_here::kill(const machine_clock& clock, duration kill_wait) {
  DDPRUN_ASSERT(living_ > 0);
  if (are_killed_) return false;
  if (!asked_at_) asked_at_ = clock.real_now();
  are_killed_ = true;
  grace_until_.reset();
  kill_until_ = clock.now() + kill_wait;
  check();
  return true;
}

void workers_here::take_as_asked(time_point now) {
  DDPRUN_ASSERT(living_ == 0);
  if (!asked_at_) asked_at_ = now;
}

bool workers_here::give_up(machine_time now) {
  if (!kill_until_ || now < *kill_until_) return false;
  kill_until_.reset();
  unkillable_ = living_;
  check();
  return true;
}

workers_here::moment workers_here::deadline() const {
  return grace_until_ ? grace_until_ : kill_until_;
}

}  // namespace ddprun::core
