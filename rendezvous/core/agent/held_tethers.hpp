// The leader's end of the tethers: who of its round hangs on this node, and for whom it can speak.
//
// A beat says that its sender got the answer before it; so it vouches for this node from when that
// answer was given.
//
// Always: a slot has one agent for the whole round, and at most one open tether, its newest.
//
// Thread rule: one thread, as the agent.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace ddprun::core {

class held_tethers {
 public:
  using moment = std::optional<time_point>;

  // Has another agent this slot in the round?
  bool is_other(const tether_hello& hello) const;
  // Its tether has come. Gives the one that it takes the place of, where that is still open.
  std::optional<std::uint64_t> attach(std::uint64_t tether, const tether_hello& hello);
  void detach(std::uint64_t tether) { open_.erase(tether); }
  // Its newest word, the hello or a beat, is answered now.
  void answer(std::uint64_t tether, time_point now);
  enum class beat_kind { old, heard, vouches };
  // `vouches`: its sender does so from a later moment than before.
  beat_kind beat(std::uint64_t tether, const tether_beat& beat, time_point now);
  // All that are open are dropped. False: none is.
  bool let_go();

  // The moment up to which so many members all vouch; none: not so many ever did.
  moment vouched(std::uint32_t members) const;
  std::size_t open() const { return open_.size(); }
  // The newest beat of a member whose workers have not all succeeded.
  const moment& needed_at() const { return needed_at_; }

 private:
  struct open_tether {
    std::uint32_t slot = 0;
    std::uint64_t beat_seq = 0;
    moment answered;  // when its newest word was; none: it was not
  };
  struct slot_holder {
    session_id session;
    std::optional<std::uint64_t> tether;  // its newest, which may have ended
    moment vouched;
  };

  std::map<std::uint64_t, open_tether> open_;
  std::map<std::uint32_t, slot_holder> by_slot_;
  std::set<std::pair<time_point, std::uint32_t>> by_age_;  // slots that ever vouched
  moment needed_at_;
};

}  // namespace ddprun::core
