// A seat is a member's place in the newest round, and what became of the member in it. It is made
// anew for each round. Who holds it may be unknown, to a daemon that was started again.
//
// Its rules are those of round_seats, which alone changes it.
//
// Thread rule: plain value.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::core {

struct node;

// What the holder was told to do in the round.
enum class command { none, prepare, run };

// Of the workers of the round at this seat.
enum class fate {
  in_reach,     // they may live, and their node says so itself
  unreachable,  // they may live, and nobody says so: the node is lost, or was never heard of
  ended,        // none lives
  dead,         // none lives, proven by a goodbye or a guardian
};

class seat {
 public:
  explicit seat(std::uint32_t slot) : slot_(slot) {}

  std::uint32_t slot() const { return slot_; }
  node* holder() const { return holder_; }  // null: not known
  std::uint32_t rank_first() const { return rank_first_; }
  const std::optional<role_ranks>& in_role() const { return in_role_; }
  core::command command() const { return command_; }
  member_phase phase() const { return phase_; }
  core::fate fate() const { return fate_; }
  bool is_unreachable() const { return fate_ == core::fate::unreachable; }
  bool has_ended() const { return fate_ == core::fate::ended || fate_ == core::fate::dead; }
  bool has_succeeded() const { return has_succeeded_; }  // final, whatever the fate
  bool has_acknowledged() const { return has_acknowledged_; }
  // Declared lost, and not back since.
  bool is_away() const { return is_away_; }
  // Has not begun to stop for longer than any stop can take: not answered until it has, so that it
  // isolates itself.
  bool is_unanswered() const { return is_unanswered_; }

 private:
  friend class round_seats;

  std::uint32_t slot_;
  node* holder_ = nullptr;
  std::uint32_t rank_first_ = 0;
  std::optional<role_ranks> in_role_;
  core::command command_ = core::command::none;
  member_phase phase_ = member_phase::joined;
  core::fate fate_ = core::fate::unreachable;
  bool has_succeeded_ = false;
  bool has_acknowledged_ = false;
  bool is_away_ = false;
  bool is_unanswered_ = false;
};

}  // namespace ddprun::core
