#include "tests/simulation/process.hpp"

#include "tests/simulation/world.hpp"

#include <chrono>
#include <utility>

namespace ddprun::simulation {

using namespace std::chrono_literals;

process::process(world& in, host& on) : world_(in), host_(on) {
  if (on.standing_still) still_since_ = in.now();
}

time_point process::local_now() const {
  return host_.clock.read(world_.now());
}

void process::post(std::function<void()> what) {
  if (!alive_) return;
  if (standing_still() || draining_) {
    inbox_.push_back(std::move(what));
    return;
  }
  what();
}

void process::stand_still() {
  stopped_ = true;
  if (!still_since_) still_since_ = world_.now();
}

void process::host_stands_still() {
  if (!still_since_) still_since_ = world_.now();
}

// This is the order of a real loop that wakes up late: it notices that, reads what has arrived, and
// only then checks its deadlines.
void process::go_on() {
  if (!alive_ || standing_still() || !still_since_) return;
  const duration by = host_.clock.read(world_.now()) - host_.clock.read(*still_since_);
  still_since_.reset();
  went_on_at_ = world_.now();
  draining_ = true;
  if (by > 50ms) on_late(by);
  while (alive_ && !inbox_.empty()) {
    auto next = std::move(inbox_.front());
    inbox_.pop_front();
    next();
  }
  draining_ = false;
  if (alive_) on_wake();
  if (alive_) world_.checks().went_on(*this);
}

void process::continue_after_stop() {
  stopped_ = false;
  go_on();
}

void process::die() {
  alive_ = false;
  inbox_.clear();
  deadline_.reset();
}

void process::wake_at(std::optional<time_point> deadline) {
  deadline_ = deadline;
  if (!deadline) return;
  const moment when = host_.clock.true_time(*deadline) + world_.timer_lateness();
  if (armed_ && *armed_ <= when) return;
  armed_ = when;
  const std::uint64_t timer = ++timer_;
  world_.time().at(when, [this, timer] { timer_fired(timer); });
}

void process::timer_fired(std::uint64_t timer) {
  if (timer != timer_) return;
  armed_.reset();
  if (!alive_ || standing_still() || !deadline_) return;
  if (local_now() < *deadline_) return wake_at(deadline_);
  wakes_at_one_moment_ = last_wake_ == world_.now() ? wakes_at_one_moment_ + 1 : 0;
  last_wake_ = world_.now();
  if (wakes_at_one_moment_ > 100) {
    world_.violated("a deadline in the past that time_passed does not end: " + why());
    return;
  }
  on_wake();
}

}  // namespace ddprun::simulation
