#include "rendezvous/core/agent/daemon_link.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void daemon_link::connected(std::string own_address, machine_time now) {
  is_connected_ = true;
  is_in_session_ = false;
  heard_ = now;
  own_address_ = std::move(own_address);
  // An answer to a status of an earlier connection cannot come any more.
  unanswered_.clear();
}

void daemon_link::welcomed() {
  DDPRUN_ASSERT(is_connected_);
  is_in_session_ = true;
  was_in_session_ = true;
  attempts_ = 0;
}

duration daemon_link::ended(machine_time now, duration reconnect_grace) {
  if (is_in_session_) apart_since_ = now;
  hung_up();
  // The first try is soon, because reconnect_grace runs; then slower, and never all at once.
  const duration step = reconnect_grace / 8;
  const duration longest = std::min<duration>(reconnect_grace / 2, std::chrono::seconds(1));
  const unsigned doublings = std::min(attempts_, 10U);
  ++attempts_;
  return std::min<duration>(longest, step * (1U << doublings));
}

void daemon_link::hung_up() {
  is_connected_ = false;
  is_in_session_ = false;
}

void daemon_link::is_idle(machine_time now) {
  if (!is_in_session_) apart_since_ = std::max(apart_since_, now);
}

std::uint64_t daemon_link::send_status(time_point now) {
  DDPRUN_ASSERT(is_connected_);
  ++status_seq_;
  // Where too many are unanswered the newest is not remembered: that only makes vouching shorter.
  if (unanswered_.size() < unanswered_statuses_max) unanswered_.push_back({status_seq_, now});
  status_at_ = now;
  return status_seq_;
}

daemon_link::moment daemon_link::answered(std::uint64_t seq) {
  moment sent;
  while (!unanswered_.empty() && unanswered_.front().seq <= seq) {
    sent = unanswered_.front().at;
    unanswered_.pop_front();
  }
  return seq > status_seq_ ? std::nullopt : sent;
}

void daemon_link::vouch(time_point sent) {
  if (!vouched_ || sent > *vouched_) vouched_ = sent;
}

daemon_link::moment daemon_link::status_due(duration heartbeat_interval) const {
  if (!is_in_session_) return std::nullopt;
  return status_at_ + heartbeat_interval;
}

// A path that healed is found sooner by a new connection than by an old one's retransmissions.
std::optional<machine_time> daemon_link::silence_deadline(duration limit) const {
  if (!is_connected_) return std::nullopt;
  return heard_ + limit;
}

}  // namespace ddprun::core
