// A membership is a member's place in the newest round, and what became of the member in it. It is
// made anew for each round. Who holds it may be unknown, to a daemon that was started again.
//
// Its rules are those of round_memberships, which alone changes it.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::core {

struct node;

// What the holder was told to do in the round.
enum class command { none, prepare, run };

// Of the workers of the round at this membership.
enum class worker_liveness {
  in_reach,     // they may live, and their node says so itself
  unreachable,  // they may live, and nobody says so: the node is lost, or was never heard of
  ended,        // none lives
  dead,         // none lives, proven by a goodbye or a guardian
};

class membership {
 public:
  explicit membership(std::uint32_t group_rank) : group_rank_(group_rank) {}

  std::uint32_t group_rank() const { return group_rank_; }
  node* holder() const { return holder_; }  // null: not known
  std::uint32_t rank_first() const { return rank_first_; }
  const std::optional<role_ranks>& in_role() const { return in_role_; }
  core::command command() const { return command_; }
  member_phase phase() const { return phase_; }
  worker_liveness liveness() const { return liveness_; }
  bool is_unreachable() const { return liveness_ == worker_liveness::unreachable; }
  bool has_ended() const {
    return liveness_ == worker_liveness::ended || liveness_ == worker_liveness::dead;
  }
  bool has_succeeded() const { return has_succeeded_; }  // final, whatever the liveness
  bool has_acknowledged() const { return has_acknowledged_; }
  // Declared lost, and not back since.
  bool is_away() const { return is_away_; }
  // Has not begun to stop for longer than any stop can take: not answered until it has, so that it
  // isolates itself.
  bool is_unacked() const { return is_unacked_; }

 private:
  friend class round_memberships;

  std::uint32_t group_rank_;
  node* holder_ = nullptr;
  std::uint32_t rank_first_ = 0;
  std::optional<role_ranks> in_role_;
  core::command command_ = core::command::none;
  member_phase phase_ = member_phase::joined;
  worker_liveness liveness_ = worker_liveness::unreachable;
  bool has_succeeded_ = false;
  bool has_acknowledged_ = false;
  bool is_away_ = false;
  bool is_unacked_ = false;
};

}  // namespace ddprun::core
