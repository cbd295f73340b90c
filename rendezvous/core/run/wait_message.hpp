// What all who wait are told: one message, built once for all of them, and again when the reason
// may have changed. Each hears of that at its own next heartbeat, so that n joins do not make n * n
// messages. What it says of time is right for a second.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <memory>

namespace ddprun::core {

inline constexpr duration wait_message_age_max = std::chrono::seconds(1);

class wait_message {
 public:
  // The reason may be another one from now on.
  void change() { ++edition_; }
  std::uint64_t edition() const { return edition_; }  // from 1 on
  // To who was told this edition last; 0: it does not wait.
  bool is_news_after(std::uint64_t edition) const { return edition != 0 && edition != edition_; }

  // The message, if it is of this edition and not old; null: it must be built. An agent takes only
  // what is newer than the last it was told, so an older shared one is no use to it.
  std::shared_ptr<const daemon_message> message_after(std::uint64_t told_seq, time_point now) const;
  void build(std::uint64_t seq, time_point now, std::shared_ptr<const daemon_message> message);

 private:
  std::uint64_t edition_ = 1;
  std::uint64_t built_edition_ = 0;
  std::uint64_t seq_ = 0;  // of the message
  time_point built_at_{};
  std::shared_ptr<const daemon_message> message_;
};

}  // namespace ddprun::core
