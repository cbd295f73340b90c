#include "launcher/process/guardian_beat.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ddprun::launcher {

guardian_beat::guardian_beat(boost::asio::any_io_executor executor, guardian& to,
                             duration isolation_limit)
    : guardian_(to),
      interval_(std::min<duration>(std::chrono::seconds(1), isolation_limit / 8)),
      timer_(std::move(executor)) {}

void guardian_beat::allow_until(std::optional<time_point> until) {
  wanted_ = until;
  if (wanted_ == sent_) return;
  const bool is_extended = wanted_ && sent_ && *wanted_ > *sent_;
  // A shorter time must reach the guardian before it matters; a longer one may wait.
  if (!is_extended || std::chrono::steady_clock::now() - sent_at_ >= interval_) return send();
  if (is_waiting_) return;
  is_waiting_ = true;
  timer_.expires_at(sent_at_ + interval_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    is_waiting_ = false;
    if (wanted_ != sent_) send();
  });
}

void guardian_beat::send() {
  sent_ = wanted_;
  sent_at_ = std::chrono::steady_clock::now();
  guardian_.beat(wanted_, 2 * interval_);
}

}  // namespace ddprun::launcher
