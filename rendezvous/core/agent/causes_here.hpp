// How this node's workers ended, as it tells the daemon: the causes of a round's end, and ends of
// which it is not clear yet whether they are failures.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <vector>

namespace ddprun::core {

// A signal to the whole group of processes reaches this agent and its workers in any order; so long
// after a worker has ended by one it is not known yet whether this node was asked to leave.
inline constexpr duration own_signal_wait = std::chrono::milliseconds(100);

struct seen_cause {
  ddprun::cause cause;
  time_point at;
};

// Always: at most causes_max, the likeliest root cause first, and it alone with a tail. The tail
// is up to 4 KiB and a status is sent each second: on each connection it is told until a status
// that has it was answered.
class causes_here {
 public:
  // False: there are so many likelier ones that it is not kept.
  bool add(cause why, time_point at);
  bool empty() const { return seen_.empty(); }

  // A connection has begun: whoever listens there has read no tail.
  void connected();
  // What the status `seq` says of them.
  std::vector<cause> tell(std::uint64_t seq, time_point now);
  void acked(std::uint64_t seq);

 private:
  void check() const;

  std::vector<seen_cause> seen_;
  std::uint64_t tail_seq_ = 0;  // of the first status on this connection that told the tail
  bool is_tail_told_ = false;   // and the daemon has answered it, or one after it
};

// Workers that ended by a signal which this agent may be sent, too. Always: they have a deadline if
// there are any.
class unclear_ends {
 public:
  void add(cause why, const machine_clock& clock);
  bool empty() const { return !until_; }
  // With their ages as of now.
  std::vector<cause> take(time_point now);
  // From then on they are failures.
  const std::optional<machine_time>& deadline() const { return until_; }

 private:
  std::vector<seen_cause> seen_;
  std::optional<machine_time> until_;
};

}  // namespace ddprun::core
