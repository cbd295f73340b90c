#include "rendezvous/core/agent/told_wait.hpp"

#include "rendezvous/core/messages/wait_text.hpp"

namespace ddprun::core {

void told_wait::hear(const desired& word, time_point now) {
  *this = {};
  if (word.phase != desired_phase::wait) return;
  heard_ = now;
  if (word.left > duration::zero()) until_ = now + word.left;
  is_last_call_ = word.is_last_call;
  gone_ = word.gone;
}

std::string told_wait::text(const std::string& text, time_point now) const {
  const duration left = until_ ? *until_ - now : duration::zero();
  return with_left(text, left, is_last_call_) + gone_text(now);
}

std::string told_wait::gone_text(time_point now) const {
  return gone_ ? "; " + sentence_of(*gone_, now - heard_) : "";
}

}  // namespace ddprun::core
