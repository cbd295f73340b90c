// The newest word of the daemon: which of what it says is news, and what waits until the workers of
// an older round are gone.
//
// Within one instance both round and number only grow, so a word that is above in neither is old.
// Instances are random and cannot be compared, but one daemon counts its words through all of them:
// on one connection the later word is that with the higher number, also of an instance that was
// named before (an empty daemon opens one, and gives it up for the one that it finds running).
// A word of an older epoch never counts, the first of a newer one always does.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <optional>
#include <string>

namespace ddprun::core {

class desired_state {
 public:
  // A connection has begun: numbers that were heard on the last one do not count against it.
  void connected();
  // Than the newest that was heard.
  bool is_older(std::uint64_t epoch) const { return epoch < epoch_; }
  void enter_epoch(std::uint64_t epoch);
  std::uint64_t epoch() const { return epoch_; }
  // This node is in no instance: any word counts.
  void forget_instance();

  // True: it is news, and the newest from now on.
  bool take(const desired& word);
  // True: these words for people are others than those before.
  bool take_text(const std::string& text);
  // The same of what is said beside them. No news is nothing new.
  bool take_news(const std::string& news);
  bool take_warning(const std::string& warning);

  // To be obeyed when no worker lives here any more.
  void defer(desired word) { deferred_ = std::move(word); }
  void drop_deferred() { deferred_.reset(); }
  bool has_deferred() const { return deferred_.has_value(); }
  desired take_deferred();

  // Is this what the daemon spoke of last, on this connection?
  bool names(instance_id instance, round_number round) const;
  // What a node in this instance and round has been told; the number only by this epoch's daemon.
  round_number round_in(instance_id instance, round_number round) const;
  std::uint64_t seq_in(instance_id instance) const;
  const std::string& text() const { return text_; }

 private:
  bool is_news(const desired& word) const;

  std::uint64_t epoch_ = 0;       // the highest, by a welcome or a word
  std::uint64_t word_epoch_ = 0;  // of the newest word, whose numbers these are
  instance_id instance_ = 0;
  round_number round_ = 0;  // the highest
  std::uint64_t seq_ = 0;
  std::uint64_t connection_seq_ = 0;  // the highest on this connection, of any instance
  instance_id named_instance_ = 0;    // by its last word on this connection, news or not
  round_number named_round_ = 0;
  std::string text_;
  std::string news_;
  std::string warning_;
  std::optional<desired> deferred_;
};

}  // namespace ddprun::core
