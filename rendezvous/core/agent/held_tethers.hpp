// The leader's end of the tethers: which members of its round depend on this node, and how far
// their tethers renew its lease.
//
// A beat says that its sender got the previous ack, so it renews this node's lease from when that
// ack was given.
//
// Always: a group rank has one agent for the whole round, and at most one open tether, its newest.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::core {

class held_tethers {
 public:
  using moment = std::optional<time_point>;

  // Whether another agent has this group rank in the round.
  bool is_other(const tether_hello& hello) const;
  // A member's tether has come. Returns the one that it replaces, if that is still open.
  std::optional<std::uint64_t> attach(std::uint64_t tether, const tether_hello& hello);
  void detach(std::uint64_t tether) { open_.erase(tether); }
  // The newest hello or beat on this tether is acknowledged now.
  void ack(std::uint64_t tether, time_point now);
  enum class beat_kind { old, heard, renews };
  // `renews`: the beat renews the lease, from a later moment than before.
  beat_kind beat(std::uint64_t tether, const tether_beat& beat, time_point now);
  // Drops all open tethers. False: there was none.
  bool let_go();

  // The moment from which the leases count that `members` members have all given; none: fewer have
  // ever given one.
  moment leased_from(std::uint32_t members) const;
  // For each member whose newest ack was given at `moment` or before: its age, the oldest first. At
  // most tether_ages_max.
  std::vector<tether_age> acks_before(time_point moment, time_point now) const;
  std::size_t open() const { return open_.size(); }
  // The newest beat of a member whose workers have not all succeeded.
  const moment& needed_at() const { return needed_at_; }

 private:
  struct open_tether {
    std::uint32_t group_rank = 0;
    std::uint64_t beat_seq = 0;
    moment acked;  // when its newest hello or beat was acknowledged; none: it was not
  };
  struct group_rank_holder {
    session_id session;
    std::optional<std::uint64_t> tether;  // its newest, which may have ended
    moment leased_from;
    moment acked;  // the newest on any of its tethers
  };

  std::map<std::uint64_t, open_tether> open_;
  std::map<std::uint32_t, group_rank_holder> by_group_rank_;
  std::set<std::pair<time_point, std::uint32_t>> by_age_;  // group ranks that ever gave a lease
  moment needed_at_;
};

}  // namespace ddprun::core
