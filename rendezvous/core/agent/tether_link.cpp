#include "rendezvous/core/agent/tether_link.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void tether_link::dial(time_point now, duration delay) {
  if (stage_ != stage::dialling) hello_since_ = now;
  stage_ = stage::dialling;
  asked_at_ = now + delay;
}

duration tether_link::failed(std::string text, duration heartbeat_interval) {
  error_ = std::move(text);
  const unsigned doublings = std::min(attempts_, 10U);
  ++attempts_;
  const duration step = heartbeat_interval / 20;
  return std::min<duration>(heartbeat_interval / 2, step * (1U << doublings));
}

std::uint64_t tether_link::beat(time_point now) {
  DDPRUN_ASSERT(stage_ == stage::idle);
  stage_ = stage::beating;
  asked_at_ = now;
  return ++beat_seq_;
}

bool tether_link::answered(std::uint64_t seq, duration heartbeat_interval) {
  time_point sent;
  if (seq == 0) {
    if (stage_ != stage::dialling) return false;
    // After a redial this may be the answer to an older hello: count from the oldest.
    sent = hello_since_;
    attempts_ = 0;
  } else {
    if (stage_ != stage::beating || seq != beat_seq_) return false;
    sent = asked_at_;
  }
  stage_ = stage::idle;
  beat_due_ = sent + heartbeat_interval;
  vouched_ = vouched_ ? std::max(*vouched_, sent) : sent;
  return true;
}

tether_link::moment tether_link::beat_deadline() const {
  return stage_ == stage::idle ? moment(beat_due_) : std::nullopt;
}

tether_link::moment tether_link::silence_deadline(duration limit) const {
  const bool is_asked = stage_ == stage::dialling || stage_ == stage::beating;
  return is_asked ? moment(asked_at_ + limit) : std::nullopt;
}

tether_link::moment tether_link::deadline(duration limit) const {
  return stage_ == stage::idle ? beat_deadline() : silence_deadline(limit);
}

}  // namespace ddprun::core
