// The members of a found round (recovery.cpp) that have not come back to this daemon: what their
// guardians say of them, and what is made of that for the stop and for the report.
#include "rendezvous/core/run/dead_members.hpp"
#include "rendezvous/core/run/rules.hpp"
#include "rendezvous/core/run/state.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

// The guardian of an agent that is not known here: the earlier daemon lived in it. That no newer
// round than its own has begun is certain, for the daemon would have asked it to stop first.
void run::state::hear_of_dead(const guardian_reported& event) {
  if (event.instance == 0) return;
  dead_node who = event.who;
  who.session = event.session;
  dead.add({event.instance, event.round, event.group_rank}, std::move(who));
  if (is_recovering(phase, claims)) {
    decide_on_claims(false);
  } else if (phase == run_phase::stopping) {
    take_the_dead();
  }
}

// The run does not wait for their workers, nor for those of others that they held by their tethers.
void run::state::take_the_dead() {
  for (membership& one : memberships) {
    const bool is_unknown = one.holder() == nullptr && one.is_unreachable();
    if (!is_unknown || dead_holder(dead, current, rounds, one) == nullptr) continue;
    memberships.mark_dead(one);
    const cause why = cause_of_missing(one, guardians_text);
    causes.add(why, real_now);
    remember_departure(*dead_holder(dead, current, rounds, one), why);
    acknowledge(notice, memberships, stop, now, one);
  }
}

const dead_node* dead_holder(const dead_members& dead, const current_instance& current,
                             const round_numbers& rounds, const membership& of) {
  return dead.find({current.id, rounds.newest(), of.group_rank()});
}

// The loss of a member that this daemon has never seen.
cause run::state::cause_of_missing(const membership& of, std::string text) const {
  cause why;
  why.round = rounds.newest();
  why.group_rank = of.group_rank();
  why.kind = cause_class::node_lost;
  why.text = std::move(text);
  if (const dead_node* const who = dead_holder(dead, current, rounds, of)) why.node = who->label;
  if (why.node.empty() && of.group_rank() == 0) why.node = current.common.leader_node;
  return why;
}

void run::state::remember_departure(const dead_node& who, const cause& why) {
  if (who.label.empty()) return;
  departed_node gone;
  gone.node = gone.place_name = who.label;
  gone.address = who.address;
  gone.rank_first = who.rank_first;
  gone.worker_count = who.worker_count;
  gone.cause = why;
  gone.at = real_now;
  current.gone.add(who.session, std::move(gone));
}

// A peer that others have lost, by their own words, is one that has not come back, if any; and
// where they say nothing of it, that is why their round has ended.
std::optional<cause> run::state::cause_of_not_back() const {
  const bool is_seen = std::any_of(memberships.begin(), memberships.end(),
                                   [](const membership& one) { return one.holder() != nullptr; });
  if (!is_seen) return std::nullopt;  // its memberships are not known
  for (const membership& one : memberships) {
    if (one.holder() != nullptr || !one.is_unreachable()) continue;
    return cause_of_missing(one, "it has not come back since the rendezvous daemon was restarted");
  }
  return std::nullopt;
}

// Of a member whom only its guardian has told of.
void add_ends_of_missing(const dead_node* who, const current_instance& current,
                         std::vector<ended_ranks>& ends) {
  if (who == nullptr || who->worker_count == 0) return;
  const std::uint32_t world = current.common.world_size;
  if (who->worker_count > world || who->rank_first > world - who->worker_count) return;
  ends.push_back({ending::lost, who->rank_first, who->rank_first + who->worker_count - 1});
}

}  // namespace ddprun::core
