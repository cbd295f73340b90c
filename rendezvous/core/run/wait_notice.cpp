#include "rendezvous/core/run/wait_notice.hpp"

#include "rendezvous/base/error.hpp"

#include <utility>

namespace ddprun::core {

std::shared_ptr<const daemon_message> wait_notice::message_after(std::uint64_t told_seq,
                                                                 time_point now) const {
  const bool is_good = built_edition_ == edition_ && now - built_at_ <= wait_notice_age_max;
  return is_good && seq_ > told_seq ? message_ : nullptr;
}

void wait_notice::build(std::uint64_t seq, time_point now,
                        std::shared_ptr<const daemon_message> message) {
  DDPRUN_ASSERT(message && seq > seq_);
  built_edition_ = edition_;
  seq_ = seq;
  built_at_ = now;
  message_ = std::move(message);
}

}  // namespace ddprun::core
