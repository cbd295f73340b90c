#include "rendezvous/core/agent/held_tethers.hpp"

#include "rendezvous/base/error.hpp"

namespace ddprun::core {

bool held_tethers::is_other(const tether_hello& hello) const {
  const auto known = by_slot_.find(hello.slot);
  return known != by_slot_.end() && known->second.session != hello.session;
}

std::optional<std::uint64_t> held_tethers::attach(std::uint64_t tether, const tether_hello& hello) {
  DDPRUN_ASSERT(!is_other(hello));
  slot_holder& member = by_slot_[hello.slot];
  member.session = hello.session;
  std::optional<std::uint64_t> older;
  if (member.tether && open_.erase(*member.tether) > 0) older = member.tether;
  member.tether = tether;
  open_[tether] = {hello.slot, 0, std::nullopt};
  return older;
}

void held_tethers::answer(std::uint64_t tether, time_point now) {
  open_.at(tether).answered = now;
}

held_tethers::beat_kind held_tethers::beat(std::uint64_t tether, const tether_beat& beat,
                                           time_point now) {
  const auto found = open_.find(tether);
  if (found == open_.end() || beat.seq <= found->second.beat_seq) return beat_kind::old;
  open_tether& link = found->second;
  link.beat_seq = beat.seq;
  if (!beat.succeeded) needed_at_ = now;
  const moment since = std::exchange(link.answered, std::nullopt);
  moment& vouched = by_slot_.at(link.slot).vouched;
  if (!since || (vouched && *since <= *vouched)) return beat_kind::heard;
  if (vouched) by_age_.erase({*vouched, link.slot});
  vouched = since;
  by_age_.insert({*since, link.slot});
  return beat_kind::vouches;
}

bool held_tethers::let_go() {
  const bool had_any = !open_.empty();
  open_.clear();
  return had_any;
}

held_tethers::moment held_tethers::vouched(std::uint32_t members) const {
  if (members == 0 || by_age_.size() < members) return std::nullopt;
  return by_age_.begin()->first;
}

}  // namespace ddprun::core
