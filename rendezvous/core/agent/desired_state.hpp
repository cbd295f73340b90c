// The newest `desired` of the daemon: which parts of it are news, and what has to wait until the
// workers of an older round are gone.
//
// Within one instance both the round and the number only grow, so a message that is above in
// neither is old. Instances are random and cannot be compared, but a daemon numbers its messages
// across all of them: on one connection the message with the higher number is the later one, even
// if it names an instance that was named before (an empty daemon opens one, and gives it up for the
// one that it finds running). A message of an older epoch never counts; the first one of a newer
// epoch always does.
#pragma once

#include "rendezvous/core/agent/agent_machine.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

class local_round;
class shutdown_state;

class desired_state {
 public:
  // A connection has begun: numbers from the last one do not count against it.
  void connected();
  // Whether this epoch is older than the newest one that was received.
  bool is_older(std::uint64_t epoch) const { return epoch < epoch_; }
  void enter_epoch(std::uint64_t epoch);
  std::uint64_t epoch() const { return epoch_; }
  // This node is in no instance, so any message counts.
  void forget_instance();

  // True: it is news, and the newest state from now on.
  bool take(const desired& message);
  // True: this text for people differs from the last one.
  bool take_text(const std::string& text);
  // The same for news and warnings. An empty text is nothing new.
  bool take_news(const std::string& news);
  bool take_warning(const std::string& warning);

  // To be obeyed once no worker lives here any more.
  void defer(desired message) { deferred_ = std::move(message); }
  void drop_deferred() { deferred_.reset(); }
  bool has_deferred() const { return deferred_.has_value(); }
  desired take_deferred();

  // Whether the daemon's last message on this connection was about this round.
  bool names(instance_id instance, round_number round) const;
  // What a node in this instance and round has been told; the number only counts for the daemon of
  // this epoch.
  round_number round_in(instance_id instance, round_number round) const;
  std::uint64_t seq_in(instance_id instance) const;
  const std::string& text() const { return text_; }

 private:
  bool is_news(const desired& message) const;

  std::uint64_t epoch_ = 0;       // the highest of any welcome or desired
  std::uint64_t word_epoch_ = 0;  // of the newest desired, which gave the numbers below
  instance_id instance_ = 0;
  round_number round_ = 0;  // the highest
  std::uint64_t seq_ = 0;
  std::uint64_t connection_seq_ = 0;  // the highest on this connection, of any instance
  instance_id named_instance_ = 0;    // in its last message on this connection, news or not
  round_number named_round_ = 0;
  std::string text_;
  std::string news_;
  std::string warning_;
  std::optional<desired> deferred_;
};

// What the daemon has said about a wait beside its text: how long it goes on, and which nodes are
// missing.
class told_wait {
 public:
  // The newest `desired`; if it is not a wait, what was known is dropped.
  void hear(const desired& message, time_point now);

  // `text`, with what is left of the wait and which nodes are missing, as of `now`.
  std::string text(const std::string& text, time_point now) const;
  // "; node-b (10.0.0.2, ranks 2 and 3) was lost 40 s ago: silent for 10 s"; empty: no node is
  // missing.
  std::string gone_text(time_point now) const;

 private:
  time_point heard_;
  std::optional<time_point> until_;  // none: not known
  bool is_last_call_ = false;
  std::optional<departure> gone_;
};

// Why a node that is told to close leaves.
leave_reason reason_of_close(const local_round& local, const shutdown_state& shutdown,
                             int exit_code);

}  // namespace ddprun::core
