// The leader's end of the tethers: who of its round hangs on this node, and for whom it can speak.
//
// A beat says that its sender got the ack before it; so it renews this node's lease from when that
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

  // Has another agent this group rank in the round?
  bool is_other(const tether_hello& hello) const;
  // Its tether has come. Gives the one that it takes the place of, where that is still open.
  std::optional<std::uint64_t> attach(std::uint64_t tether, const tether_hello& hello);
  void detach(std::uint64_t tether) { open_.erase(tether); }
  // Its newest word, the hello or a beat, is answered now.
  void ack(std::uint64_t tether, time_point now);
  enum class beat_kind { old, heard, renews };
  // `renews`: the lease, from a later moment than before.
  beat_kind beat(std::uint64_t tether, const tether_beat& beat, time_point now);
  // All that are open are dropped. False: none is.
  bool let_go();

  // From when on so many members all have given a lease; none: not so many ever did.
  moment leased_from(std::uint32_t members) const;
  // Of members, the oldest first: where the newest was given at `moment` or before. At most
  // tether_ages_max.
  std::vector<tether_age> acks_before(time_point moment, time_point now) const;
  std::size_t open() const { return open_.size(); }
  // The newest beat of a member whose workers have not all succeeded.
  const moment& needed_at() const { return needed_at_; }

 private:
  struct open_tether {
    std::uint32_t group_rank = 0;
    std::uint64_t beat_seq = 0;
    moment acked;  // when its newest word was; none: it was not
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
