// The member's end of the tether: the connection to the leader, which renews this node's lease.
//
//   stage     becomes   by
//   off       dialling  dial (the first)
//   dialling  idle      answered (the hello)
//   idle      beating   beat
//   beating   idle      answered (the beat)
//   any       dialling  dial (after it failed or was silent)
//   any       off       let_go
//
// A beat is sent only once the last one was acknowledged, and counts from when it was sent.
#pragma once

#include "rendezvous/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::core {

class tether_link {
 public:
  using moment = std::optional<time_point>;

  void dial(time_point now, duration delay);
  // Returns how long to wait before the next dial, without the jitter.
  duration failed(std::string text, duration heartbeat_interval);
  // The connection broke, so no ack for an older hello can come on it.
  void broke(time_point now) { hello_since_ = now; }
  void let_go() { stage_ = stage::off; }

  // The next beat is sent. Returns its number, which is used once in a round.
  std::uint64_t beat(time_point now);
  // An ack for the beat `seq`, or for the hello (0). False: nothing waits for it.
  bool acked(std::uint64_t seq, time_point now, duration heartbeat_interval);

  bool is_wanted() const { return stage_ != stage::off; }
  // When the next beat is due; none: a dial or a beat is under way.
  moment beat_deadline() const;
  // When the dial or beat that is under way has been without an ack for too long.
  moment silence_deadline(duration limit) const;
  moment deadline(duration limit) const;
  // When the newest beat that was acknowledged was sent: the lease counts from then.
  const moment& leased_from() const { return leased_from_; }
  // When the newest ack came.
  const moment& acked_at() const { return acked_at_; }
  const std::string& error() const { return error_; }

 private:
  enum class stage { off, dialling, idle, beating };

  stage stage_ = stage::off;
  time_point asked_at_;     // when the newest dial or beat was sent
  time_point hello_since_;  // when the oldest hello was sent that may still be acknowledged
  time_point beat_due_;
  std::uint64_t beat_seq_ = 0;
  unsigned attempts_ = 0;
  std::string error_;
  moment leased_from_;
  moment acked_at_;
};

}  // namespace ddprun::core
