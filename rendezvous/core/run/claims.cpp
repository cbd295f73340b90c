// Those that come to a daemon with an instance that it does not know: what they claim, how long the
// others of it are waited for, and which claim is taken. What is made of it: recovery.cpp.
//
// Agents may come back when that time is long over, and find an instance that newcomers have opened
// here, or an older round of theirs that was all there was to find. While nobody has been placed
// these give way: the time begins anew.
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {
namespace {

bool says_it_runs(const status& said) {
  switch (said.phase) {
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::succeeded:
    case member_phase::failed:
      return said.place.has_value() && said.round != 0;
    case member_phase::joined:
    case member_phase::preparing:
    case member_phase::stopping:
    case member_phase::stopped:
    case member_phase::lost:
      return false;
  }
  return false;
}

round_number newest_round(const std::vector<node*>& claimants) {
  round_number newest = 0;
  for (const node* const who : claimants)
    newest = std::max({newest, who->state.round, who->state.round_told});
  return newest;
}

// One that has had a round is more than any number of nodes that only wait.
bool is_larger(const std::vector<node*>& one, const std::vector<node*>& other) {
  const auto size = [](const std::vector<node*>& claimants) {
    return std::pair(newest_round(claimants) != 0, claimants.size());
  };
  return size(one) > size(other);
}

}  // namespace

// All members of the newest round are here and say that they run it.
bool is_complete(const std::vector<node*>& claimants, round_number newest) {
  std::vector<bool> filled;
  std::size_t count = 0;
  for (const node* const who : claimants) {
    const status& said = who->state;
    if (said.round != newest) continue;
    if (!says_it_runs(said)) return false;
    if (filled.empty()) filled.resize(said.place->group_world_size);
    const std::uint32_t slot = said.place->slot;
    if (filled.size() != said.place->group_world_size || slot >= filled.size()) return false;
    if (!filled[slot]) ++count;
    filled[slot] = true;
  }
  return count != 0 && count == filled.size();
}

bool run::state::is_recovering() const {
  return phase == run_phase::gathering && claims.is_waiting();
}

void run::state::remember_claim(const node& who) {
  claims.add(who.state.instance, std::max(who.state.round, who.state.round_told));
}

// By these claimants of an instance, and by others of it that are gone again.
round_number run::state::newest_named(const std::vector<node*>& claimants) const {
  return claims.newest_of(claimants.front()->state.instance, newest_round(claimants));
}

// Another node of its instance has named a newer round: whoever still runs the older one, as after
// it stood still, is not vouched for, though nothing is decided yet.
bool run::state::is_outdated_claim(const node& who) const {
  return who.state.round < claims.newest_of(who.state.instance, 0);
}

void run::state::claim(node& who) {
  if (who.state.instance == 0 || who.state.instance == current.id) {
    queue_for_round(who);
    return;
  }
  who.standing = standing::claimant;
  has_claims = true;
  remember_claim(who);
  recount(who);
  if (!is_recovering()) {
    if (current.settings) give_way();
    const timers& given = timing_of(who);
    claims.reopen(now + std::max(given.recovery_window, given.reconnect_grace));
    note(note_level::info,
         who.label() + " runs round " + std::to_string(who.state.round) +
             ", which this daemon does not know: waiting for the other nodes of it");
    notice.change();
  }
  // Looked at only when all could be here, so that n hellos do not cost n * n.
  const bool may_be_complete =
      says_it_runs(who.state) && nodes.connected() >= who.state.place->group_world_size;
  if (may_be_complete) decide_on_claims(false);
}

// Those of a newer round than was found come late: cut off, while one that only waited was not.
bool run::state::outdates_found_round(const node& who) const {
  const status& said = who.state;
  if (!current.is_found || current.operator_stop || !claims.may_reopen()) return false;
  if (said.instance != current.id || who.seat != nullptr || who.standing == standing::fenced)
    return false;
  if (said.round > rounds.newest()) return true;
  // A node that was fenced here was told of the floor; where only the record says that there was a
  // round, whoever was told of one has seen it.
  return said.round_told > (earlier.is_there() ? rounds.newest() : rounds.highest());
}

// Whatever was begun here: nobody has been placed yet.
void run::state::give_way() {
  std::optional<session_id> leading;
  if (phase == run_phase::preparing) leading = seats.leader().greeting.session;
  enter(run_phase::gathering);
  leave_round();
  causes.clear();
  choice = {};
  current.is_found = current.has_placed = false;
  current.settings.reset();
  groups.unfix();
  // It may have been here for its seat alone.
  node* const leader = leading ? nodes.find(*leading) : nullptr;
  if (leader != nullptr && is_candidate(*leader)) tell_wait(*leader);
}

void run::state::claim_anew(node& who) {
  give_way();
  if (options.keeps_records && !earlier.is_there()) {
    if (std::optional<run_record> known = record_now()) earlier.begin(*std::move(known), now);
  }
  const instance_id found = std::exchange(current.id, 0);
  for (const auto& [order, other] : nodes) {
    if (other->standing != standing::here || other->state.instance != found) continue;
    other->standing = standing::claimant;
    remember_claim(*other);
    recount(*other);
  }
  claim(who);
}

// True when an instance was adopted. `has_claims` stays where claimants are within their grace to
// come back.
bool run::state::decide_on_claims(bool window_is_over) {
  std::map<instance_id, std::vector<node*>> by_instance;
  std::vector<instance_id> in_order;
  has_claims = false;
  for (const auto& [order, who] : nodes) {
    if (who->standing != standing::claimant) continue;
    has_claims = true;
    if (who->connection == 0) continue;
    std::vector<node*>& claimants = by_instance[who->state.instance];
    if (claimants.empty()) in_order.push_back(who->state.instance);
    claimants.push_back(who.get());
  }
  const std::vector<node*>* best = nullptr;
  instance_id which = 0;
  for (const instance_id one : in_order) {
    const std::vector<node*>& claimants = by_instance[one];
    if (!window_is_over && !is_complete(claimants, newest_named(claimants))) continue;
    if (best != nullptr && !is_larger(claimants, *best)) continue;
    best = &claimants;
    which = one;
  }
  if (best == nullptr) return false;
  adopt(which, *best);
  return true;
}

}  // namespace ddprun::core
