#include "worker/training/loss_rule.hpp"

#include <algorithm>

namespace ddprun::worker {

void loss_rule::begin_step(time_point now) {
  began_ = now;
  waits_since_.reset();
  stopped_.reset();
}

void loss_rule::begin_wait(time_point now) {
  waits_since_ = now;
}

void loss_rule::end_step(time_point now) {
  if (steps_++ != 0) longest_ = std::max(longest_, now - began_);
}

std::string loss_rule::look(time_point now, const std::string& sign, bool stop_has_come) {
  if (!sign.empty()) return sign;
  if (waits_since_ && now - *waits_since_ >= wait_limit_) {
    return "timed out: the GPU still waits for other ranks after " + ddprun::to_text(wait_limit_);
  }
  if (!stop_has_come) {
    stopped_.reset();
    return "";
  }
  if (!stopped_) stopped_ = now;
  const auto limit = std::clamp<duration>(2 * longest_, after_stop_min, after_stop_max);
  if (now - *stopped_ < limit) return "";
  return ddprun::to_text(limit) + " after SIGTERM the GPU still waits for other ranks";
}

}  // namespace ddprun::worker
