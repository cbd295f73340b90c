// How this node's workers ended, as it reports it to the daemon: the causes of a round's end, and
// ends of which it is not clear yet whether they are failures.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <vector>

namespace ddprun::core {

// A signal to the whole process group reaches this agent and its workers in any order. For this
// long after a signal has ended a worker it is unclear whether the signal was to the node.
inline constexpr duration own_signal_wait = std::chrono::milliseconds(100);

struct seen_cause {
  ddprun::cause cause;
  time_point at;
};

// Always: at most causes_max, the likeliest root cause first, and only that one with a tail. A tail
// is up to 4 KiB long and a status is sent every second, so on each connection it is sent only
// until a status with it has been acknowledged.
class local_causes {
 public:
  // False: there are so many likelier causes that this one is dropped.
  bool add(cause why, time_point at);
  bool empty() const { return seen_.empty(); }

  // A connection has begun: its daemon has not read the tail.
  void connected();
  // The causes as status `seq` reports them.
  std::vector<cause> tell(std::uint64_t seq, time_point now);
  void acked(std::uint64_t seq);

 private:
  void check() const;

  std::vector<seen_cause> seen_;
  std::uint64_t tail_seq_ = 0;  // of the first status on this connection that told the tail
  bool is_tail_told_ = false;   // and the daemon has answered it, or one after it
};

// Workers that were ended by a signal which this agent may have been sent, too. Always: there is a
// deadline if there are any.
class unclear_ends {
 public:
  void add(cause why, const machine_clock& clock);
  bool empty() const { return !until_; }
  // With their ages as of now.
  std::vector<cause> take(time_point now);
  // From this moment on they count as failures.
  const std::optional<machine_time>& deadline() const { return until_; }

 private:
  std::vector<seen_cause> seen_;
  std::optional<machine_time> until_;
};

}  // namespace ddprun::core
