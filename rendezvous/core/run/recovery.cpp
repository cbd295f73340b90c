// A restarted daemon learns from its agents what was running (DESIGN.md): what agents claim that
// name an instance unknown to the daemon, how long the other nodes of it are waited for, which
// claim is adopted, and what happens then. An agent that held the earlier daemon and died does not
// come back: its guardian says that it is dead.
//
// Until the window is over every status is acknowledged, which renews the leases of running agents,
// and no agent gets a new order, because others may still be on their way. A round whose members
// are all here and say that they run it goes on, at once and as it is. Otherwise, when the window
// is over, the instance with the most agents is adopted, its newest round is ended free of charge,
// and members that have not come back are fenced as if they had been lost; but if all that came
// back have succeeded, the run has succeeded. Agents of any other instance are fenced.
//
// Agents may come back long after that, and find an instance that newcomers have opened here, or an
// older round of their own that was all there was to find. As long as no node has been placed these
// give way: the window begins again.
#include "rendezvous/core/run/recovery.hpp"

#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

namespace {

round_number newest_round(const std::vector<node*>& claimants) {
  round_number newest = 0;
  for (const node* const who : claimants)
    newest = std::max({newest, who->state.round, who->state.round_told});
  return newest;
}

// A group that had a round outranks any number of waiting nodes.
bool is_larger(const std::vector<node*>& one, const std::vector<node*>& other) {
  const auto size = [](const std::vector<node*>& claimants) {
    return std::pair(newest_round(claimants) != 0, claimants.size());
  };
  return size(one) > size(other);
}

}  // namespace

// All members of the newest round are here and say that they run it, or are among the dead.
bool is_complete(const std::vector<node*>& claimants, round_number newest,
                 const dead_members& dead) {
  std::vector<bool> filled;
  std::size_t count = 0;
  for (const node* const who : claimants) {
    const status& said = who->state;
    if (said.round != newest) continue;
    if (!says_it_runs(said)) return false;
    if (filled.empty()) filled.resize(said.assignment->group_world_size);
    const std::uint32_t group_rank = said.assignment->group_rank;
    if (filled.size() != said.assignment->group_world_size || group_rank >= filled.size())
      return false;
    if (!filled[group_rank]) ++count;
    filled[group_rank] = true;
  }
  if (count == 0) return false;
  const instance_id instance = claimants.front()->state.instance;
  for (std::uint32_t group_rank = 0;
       dead.has_any_of(instance, newest) && group_rank < filled.size(); ++group_rank) {
    if (!filled[group_rank] && dead.contains({instance, newest, group_rank})) ++count;
  }
  return count == filled.size();
}

bool is_recovering(const entered_phase& phase, const recovery_claims& claims) {
  return phase == run_phase::gathering && claims.is_waiting();
}

void remember_claim(recovery_claims& claims, const node& who) {
  claims.add(who.state.instance, std::max(who.state.round, who.state.round_told));
}

// The newest round that was named by these claimants, or by nodes of their instance that are gone
// again.
round_number newest_named(const recovery_claims& claims, const std::vector<node*>& claimants) {
  return claims.newest_of(claimants.front()->state.instance, newest_round(claimants));
}

// Another node of its instance has named a newer round. A node that still runs the older one,
// perhaps because it stood still, gets no lease, even though nothing is decided yet.
bool is_outdated_claim(const recovery_claims& claims, const node& who) {
  return who.state.round < claims.newest_of(who.state.instance, 0);
}

// A claimant of another instance, while the newcomers' instance has placed no node. A node that
// keeps coming with new instances can hold up the newcomers for a limited number of windows only.
bool is_of_running_instance(const entered_phase& phase, const current_instance& current,
                            const recovery_claims& claims, const node& who) {
  if (!is_recovering(phase, claims) && !claims.may_reopen()) return false;
  const bool waits = phase == run_phase::gathering || phase == run_phase::preparing;
  return waits && !current.has_placed && who.node_state != node_state::fenced &&
         who.state.instance != current.id && knows_of_round(who.state);
}

void run::state::claim(node& who) {
  if (who.state.instance == 0 || who.state.instance == current.id) {
    queue_for_round(who);
    return;
  }
  who.node_state = node_state::claimant;
  claims.set_claimants(true);
  remember_claim(claims, who);
  recount(counts(), who);
  if (!is_recovering(phase, claims)) {
    // A round was being prepared here, but no node was placed.
    if (current.settings) give_way();
    const timers& given = timing_of(current, who);
    claims.reopen(now + std::max(given.recovery_window, given.reconnect_grace));
    out.note(note_level::info,
             who.label() + " runs round " + std::to_string(who.state.round) +
                 ", of which this daemon has no record: waiting for its other nodes");
    waiting.change();
  }
  // Checked only when all members could be here, so that n hellos do not cost n * n.
  const bool may_be_complete =
      says_it_runs(who.state) &&
      nodes.connected() + dead.count() >= who.state.assignment->group_world_size;
  if (may_be_complete) decide_on_claims(false);
}

// Whether a member of a newer round than the found one comes late: it was cut off, while a node
// that had only waited was not.
bool outdates_found_round(const current_instance& current, const round_numbers& rounds,
                          const recovery_claims& claims, const persisted_run& persisted,
                          const node& who) {
  const status& said = who.state;
  if (!current.is_found || current.operator_stop || !claims.may_reopen()) return false;
  if (said.instance != current.id || who.membership != nullptr ||
      who.node_state == node_state::fenced)
    return false;
  if (said.round > rounds.newest()) return true;
  // A node that was fenced here was told of the floor. If only the record says that there was a
  // round, any node that was told of one has seen it.
  return said.round_told > (persisted.is_there() ? rounds.newest() : rounds.highest());
}

// Gives up whatever was begun here. No node has been placed, so no worker runs.
void run::state::give_way() {
  std::optional<session_id> leading;
  if (phase == run_phase::preparing) leading = memberships.leader().greeting.session;
  enter(phase, waiting, now, run_phase::gathering);
  leave_round();
  causes.clear();
  settle = {};
  current.is_found = current.has_placed = false;
  current.settings.reset();
  groups.unfix();
  // leave_round() may have forgotten it, if it was here for its membership alone.
  node* const leader = leading ? nodes.find(*leading) : nullptr;
  if (leader != nullptr && is_candidate(nodes, *leader)) tell_wait(*leader);
}

// The found round was not the newest: recovery begins again, with what is known now as the
// persisted run.
void run::state::claim_anew(node& who) {
  give_way();
  if (options.persists_records && !persisted.is_there()) {
    if (std::optional<run_record> known = record_now()) {
      persisted.begin(*std::move(known), now);
      for (const auto& [order, other] : nodes) {
        if (other->counted) persisted.count(other->lasting_name(), true);
      }
    }
  }
  const instance_id found = std::exchange(current.id, 0);
  for (const auto& [order, other] : nodes) {
    if (other->node_state != node_state::here || other->state.instance != found) continue;
    other->node_state = node_state::claimant;
    remember_claim(claims, *other);
    recount(counts(), *other);
  }
  claim(who);
}

// True: an instance was adopted. False: claimants without a connection may have their grace to come
// back (`has_claimants`).
bool run::state::decide_on_claims(bool window_is_over) {
  std::map<instance_id, std::vector<node*>> by_instance;
  std::vector<instance_id> in_order;
  claims.set_claimants(false);
  for (const auto& [order, who] : nodes) {
    if (who->node_state != node_state::claimant) continue;
    claims.set_claimants(true);
    if (who->connection == 0) continue;
    std::vector<node*>& claimants = by_instance[who->state.instance];
    if (claimants.empty()) in_order.push_back(who->state.instance);
    claimants.push_back(who.get());
  }
  const std::vector<node*>* best = nullptr;
  instance_id which = 0;
  for (const instance_id one : in_order) {
    const std::vector<node*>& claimants = by_instance[one];
    // Before the window is over only a complete round is certain.
    if (!window_is_over && !is_complete(claimants, newest_named(claims, claimants), dead)) continue;
    if (best != nullptr && !is_larger(claimants, *best)) continue;
    best = &claimants;
    which = one;
  }
  if (best == nullptr) return false;
  adopt(which, *best);
  return true;
}

void recovery_claims::end_wait_if_over(machine_time now) {
  if (until_ && now >= *until_) end_wait();
}

void recovery_claims::reopen(machine_time until) {
  ++windows_reopened_;
  until_ = until;
}

void recovery_claims::add(instance_id of, round_number newest) {
  if (!newest_.contains(of) && newest_.size() >= newest_claims_max) return;
  round_number& known = newest_[of];
  known = std::max(known, newest);
}

round_number recovery_claims::newest_of(instance_id of, round_number least) const {
  const auto found = newest_.find(of);
  return found == newest_.end() ? least : std::max(least, found->second);
}

void recovery_claims::settle() {
  has_claimants_ = false;
  newest_.clear();
  end_wait();
}

void recovery_claims::begin_instance() {
  newest_.clear();
  windows_reopened_ = 0;
  end_wait();
}

namespace {

constexpr std::uint32_t claimed_nodes_max = 1'000'000;

}  // namespace

void run::state::adopt(instance_id which, const std::vector<node*>& claimants) {
  // Otherwise the journal is stale, and the agents are believed.
  const bool is_remembered = persisted.is_of(which);
  if (!is_remembered) rounds.set_reserved(0);
  if (persisted.is_there() && !is_remembered) current.budget = {};
  // Reserved numbers count only if the newest round is not known: see below.
  if (persisted.is_there()) rounds.drop_floor();
  const round_number newest = newest_named(claims, claimants);
  // Nodes that have only waited know no more than the record does.
  const bool is_record_newer = is_remembered && newest == 0;
  const placed_nodes before = is_remembered ? current.placed : placed_nodes{};
  current.due = is_remembered ? persisted.record()->due : std::nullopt;
  // The run has gone on since: the failure was free of charge, or the record is an old copy.
  if (current.due && newest > current.due->round) current.due.reset();
  if (!is_record_newer) persisted.drop();
  current.id = which;
  if (const auto& job = claimants.front()->greeting.job) current.job = job;
  current.is_found = true;
  claims.settle();
  stale.drop_lost();  // that round's own fence counts them, too
  enter(phase, waiting, now, run_phase::gathering);
  rounds.raise_newest(newest);
  out.note(note_level::info, "found " + std::to_string(claimants.size()) +
                                 " nodes of an earlier daemon, newest round " +
                                 std::to_string(newest));
  for (node* const who : claimants) {
    who->node_state = node_state::here;
    groups.join(*who);
    recount(counts(), *who);
    raise_restarts_used(current, *who);
  }
  std::vector<node*> of_round;
  std::vector<node*> rest;
  for (node* const who : claimants)
    (newest != 0 && who->state.round == newest ? of_round : rest).push_back(who);
  if (!of_round.empty()) {
    adopt_round(of_round);
  } else if (newest != 0) {
    end_unseen_round(claimants);
  }
  // The earlier daemon may have chosen one more round and died before any of these nodes heard of
  // it, and no number may be used twice. A round that goes on is known to be the newest.
  if (phase != run_phase::running) {
    rounds.raise_floor(std::max(newest + 1, rounds.reserved()));
  }
  if (!is_record_newer) note_placed(current, memberships, timing_of(current, groups));
  if (phase != run_phase::running) {
    // Members that have not come back count, too: the record may know of more.
    current.placed.count = std::max(current.placed.count, before.count);
    current.placed.gone_after = std::max(current.placed.gone_after, before.gone_after);
  }
  rounds.reserve_ahead();
  if (is_record_newer && current.due) return close_as_due();
  // By session, because recognising one node may remove another.
  std::vector<session_id> others;
  for (const auto& [order, who] : nodes) {
    if (who->membership == nullptr && who->node_state != node_state::fenced &&
        who->connection != 0) {
      others.push_back(who->greeting.session);
    }
  }
  for (const session_id session : others) {
    node* const found = nodes.find(session);
    if (found != nullptr && found->membership == nullptr) recognise(*found);
  }
}

// If the members of a round disagree on the settings, the majority is right.
settings_group& group_of_most(const std::vector<node*>& claimants) {
  std::map<settings_group*, std::size_t> counts;
  settings_group* most = nullptr;
  for (const node* const who : claimants) {
    const std::size_t count = ++counts[who->group];
    if (most == nullptr || count > counts[most]) most = who->group;
  }
  return *most;
}

void run::state::adopt_round(const std::vector<node*>& claimants) {
  settings_group& group = group_of_most(claimants);
  std::vector<node*> still_here;
  for (node* const who : claimants) {
    if (who->group == &group) still_here.push_back(who);
  }
  fix_settings(options, counts(), current, claims, out,
               group);  // The others are refused, and so forgotten.
  current.has_placed = true;
  causes.clear();
  take_found_facts(current, age, still_here);
  if (is_complete(still_here, rounds.newest())) {
    keep_round(phase, current, rounds, memberships, groups, waiting, now, out, still_here);
  } else if (!current.due && !dead.has_any_of(current.id, rounds.newest()) &&
             std::all_of(still_here.begin(), still_here.end(),
                         [](const node* who) { return has_succeeded(who->state); })) {
    end_found_success(still_here);
    return;
  } else {
    end_found_round(still_here);
  }
  std::vector<node*> present;
  for (const membership& one : memberships) {
    if (one.holder() != nullptr) present.push_back(one.holder());
  }
  for (node* const member : present) {
    if (member->membership != nullptr) on_member_status(*member, member->state);
  }
}

// What the members know of their round: what all assignments share, and since when it has run.
void take_found_facts(current_instance& current, round_age& age,
                      const std::vector<node*>& claimants) {
  std::optional<machine_time> since;
  for (const node* const who : claimants) {
    if (who->state.assignment) current.common = *who->state.assignment;
    if (who->ran_since) since = std::min(since.value_or(*who->ran_since), *who->ran_since);
  }
  age.begin_found(since);
}

void keep_round(entered_phase& phase, current_instance& current, round_numbers& rounds,
                round_memberships& memberships, const gathering& groups, wait_message& waiting,
                machine_time now, outbox& out, const std::vector<node*>& claimants) {
  memberships.open(claimants.front()->state.assignment->group_world_size);
  for (node* const who : claimants) {
    const assignment& assigned = *who->state.assignment;
    if (!memberships.is_free(assigned.group_rank)) continue;
    memberships.command(
        memberships.take(assigned.group_rank, *who, assigned.rank_first, assigned.in_role),
        command::run);
  }
  current.common = *memberships.leader().state.assignment;
  // The agents were told the count when the round began. The record may have one more, for a
  // failure that they will report again.
  current.budget.set_restarts_used(0);
  for (const node* const who : claimants)
    raise_restarts_used(current, *who);
  current.is_found = false;
  current.due.reset();  // that failure is reported again
  enter(phase, waiting, now, run_phase::running);
  memberships.start_until(now + timing_of(current, groups).start_timeout);
  out.note(note_level::info,
           "round " + std::to_string(rounds.newest()) + " goes on: all its nodes are back");
  for (const membership& one : memberships) {
    ddprun::desired value = base_desired(current, rounds, out, desired_phase::run);
    value.assignment = assignment_of(current, one);
    out.want(*one.holder(), finished(std::move(value)));
  }
}

// Memberships of members that have not come back stay free: unreachable until they do.
void place_found(round_memberships& memberships, const std::vector<node*>& claimants) {
  std::uint32_t size = 0;
  for (const node* const who : claimants) {
    if (who->state.assignment) size = std::max(size, who->state.assignment->group_world_size);
  }
  // A leader that is still preparing cannot say who else was told to run, so assume one more member
  // than is here.
  if (size == 0) size = static_cast<std::uint32_t>(claimants.size()) + 1;
  size = std::min(size, claimed_nodes_max);
  memberships.open(size);
  std::vector<node*> without_place;
  for (node* const who : claimants) {
    const status& said = who->state;
    std::optional<std::uint32_t> group_rank;
    if (said.assignment) group_rank = said.assignment->group_rank;
    if (!group_rank && said.phase == member_phase::preparing) group_rank = 0;
    if (group_rank && *group_rank < size && memberships.is_free(*group_rank)) {
      const std::uint32_t rank_first = said.assignment ? said.assignment->rank_first : 0;
      memberships.command(memberships.take(*group_rank, *who, rank_first), command::run);
    } else {
      without_place.push_back(who);
    }
  }
  // A node that has stopped may have forgotten its rank. It gets one of the last free ones, so that
  // no guess makes the leader look present.
  std::uint32_t free = size;
  for (node* const who : without_place) {
    while (free > 1 && !memberships.is_free(free - 1))
      --free;
    if (free <= 1) break;
    memberships.command(memberships.take(--free, *who), command::run);
  }
}

// The earlier daemon may have told the other members already that all is done, so no round follows.
void run::state::end_found_success(const std::vector<node*>& claimants) {
  place_found(memberships, claimants);
  const std::size_t missing = memberships.unknown();
  enter(phase, waiting, now, run_phase::running);
  for (membership& one : memberships) {
    if (one.holder() != nullptr) memberships.mark_ended(one);
  }
  stop = round_stop(now, steps, duration::zero(), true, nullptr);
  std::string text = "every worker succeeded";
  if (missing != 0) {
    text += " on the nodes that came back; the rendezvous daemon was restarted, and " +
            std::to_string(missing) + " of " + std::to_string(memberships.size()) +
            " nodes of round " + std::to_string(rounds.newest()) + " have not come back";
  }
  close(0, std::nullopt, std::move(text));
}

void run::state::end_found_round(const std::vector<node*>& claimants) {
  place_found(memberships, claimants);
  const std::size_t missing = memberships.unknown();
  enter(phase, waiting, now, run_phase::running);
  std::string text = "the rendezvous daemon was restarted";
  if (missing != 0) {
    text += " and " + std::to_string(missing) + " of " + std::to_string(memberships.size()) +
            " nodes of round " + std::to_string(rounds.newest()) + " have not come back";
  }
  end_round(nullptr, timing_of(current, groups).stop_grace, std::move(text), {.is_free = true});
  take_the_dead(current, rounds, memberships, causes, stop, dead, waiting, clock);
}

// Only waiting nodes have come back, and they were told of a round: its members may still run it,
// kept alive by their tethers. One membership without a holder stands for them.
void run::state::end_unseen_round(const std::vector<node*>& claimants) {
  fix_settings(options, counts(), current, claims, out, group_of_most(claimants));
  current.has_placed = true;
  causes.clear();
  age.begin_found(std::nullopt);
  memberships.open(1);
  enter(phase, waiting, now, run_phase::running);
  end_round(nullptr, timing_of(current, groups).stop_grace,
            "the rendezvous daemon was restarted and no node of round " +
                std::to_string(rounds.newest()) + " has come back",
            {.is_free = true});
}

// Takes in a member of a found round that comes back while the round is being stopped. False: it is
// not such a member.
bool run::state::fill_gap(node& who) {
  const status& said = who.state;
  if (phase != run_phase::stopping || said.round != rounds.newest() || !said.assignment)
    return false;
  // It may have been away when the settings of the others were adopted.
  if (!difference(options, phase, current, claims, groups, now, who.greeting).empty()) return false;
  const std::uint32_t size = said.assignment->group_world_size;
  const std::uint32_t group_rank = said.assignment->group_rank;
  if (group_rank >= size || size > claimed_nodes_max) return false;
  if (memberships.unknown() == 0) return false;
  if (memberships.size() < size) {
    memberships.grow(size);
    current.placed.count = std::max(current.placed.count, size);
  }
  if (!memberships.is_free(group_rank)) return false;
  memberships.command(memberships.take(group_rank, who), command::run);
  stop.tell_late(now);
  who.node_state = node_state::here;
  groups.join(who);
  // The earlier daemon may have sent it higher numbers than this one has given, so the stop needs a
  // new one.
  ddprun::desired order = std::get<ddprun::desired>(*stop.message());
  order.seq = out.next_seq();
  out.want(who, finished(std::move(order)));
  on_member_status(who, said);
  return true;
}

// Members of a found round that have not come back to this daemon: what their guardians say of
// them, and what follows for the stop and for the report.

// Handles the guardian of an agent that is not known here, because the earlier daemon lived in it.
// No newer round than the agent's can have begun: that daemon would have stopped the agent first.
void run::state::hear_of_dead(const guardian_reported& event) {
  if (event.instance == 0) return;
  dead_node who = event.who;
  who.session = event.session;
  dead.add({event.instance, event.round, event.group_rank}, std::move(who));
  if (is_recovering(phase, claims)) {
    decide_on_claims(false);
  } else if (phase == run_phase::stopping) {
    take_the_dead(current, rounds, memberships, causes, stop, dead, waiting, clock);
  }
}

// Marks members as dead whose guardians have reported. The run waits neither for their workers nor
// for a lease that they gave by their tethers.
void take_the_dead(current_instance& current, const round_numbers& rounds,
                   round_memberships& memberships, root_cause& causes, round_stop& stop,
                   const dead_members& dead, wait_message& waiting, const machine_clock& clock) {
  for (membership& one : memberships) {
    const bool is_unknown = one.holder() == nullptr && one.is_unreachable();
    if (!is_unknown || dead_holder(dead, current, rounds, one) == nullptr) continue;
    memberships.mark_dead(one);
    const cause why = cause_of_missing(current, rounds, dead, one, guardians_text);
    causes.add(why, clock.real_now());
    remember_dead(current, clock.real_now(), *dead_holder(dead, current, rounds, one), why);
    acknowledge(waiting, memberships, stop, clock.now(), one);
  }
}

const dead_node* dead_holder(const dead_members& dead, const current_instance& current,
                             const round_numbers& rounds, const membership& of) {
  return dead.find({current.id, rounds.newest(), of.group_rank()});
}

// The loss of a member that this daemon has never seen.
cause cause_of_missing(const current_instance& current, const round_numbers& rounds,
                       const dead_members& dead, const membership& of, std::string text) {
  cause why;
  why.round = rounds.newest();
  why.group_rank = of.group_rank();
  why.kind = cause_class::node_lost;
  why.text = std::move(text);
  if (const dead_node* const who = dead_holder(dead, current, rounds, of)) why.node = who->label;
  if (why.node.empty() && of.group_rank() == 0) why.node = current.common.leader_node;
  return why;
}

void remember_dead(current_instance& current, time_point real_now, const dead_node& who,
                   const cause& why) {
  if (who.label.empty()) return;
  departed_node gone;
  gone.node = gone.position_name = who.label;
  gone.address = who.address;
  gone.rank_first = who.rank_first;
  gone.worker_count = who.worker_count;
  gone.cause = why;
  gone.at = real_now;
  current.gone.add(who.session, std::move(gone));
}

// If other members say that they lost a peer, or say nothing of a cause, the root cause is a member
// that has not come back, if there is one.
std::optional<cause> cause_of_not_back(const current_instance& current, const round_numbers& rounds,
                                       const round_memberships& memberships,
                                       const dead_members& dead) {
  const bool is_seen = std::any_of(memberships.begin(), memberships.end(),
                                   [](const membership& one) { return one.holder() != nullptr; });
  if (!is_seen) return std::nullopt;  // its memberships are not known
  for (const membership& one : memberships) {
    if (one.holder() != nullptr || !one.is_unreachable()) continue;
    return cause_of_missing(current, rounds, dead, one,
                            "it has not come back since the rendezvous daemon was restarted");
  }
  return std::nullopt;
}

// The ranks of a member that is known from its guardian only. Ranks that are not in the world are
// ignored.
void add_ends_of_missing(const dead_node* who, const current_instance& current,
                         std::vector<ended_ranks>& ends) {
  if (who == nullptr || who->worker_count == 0) return;
  const std::uint32_t world = current.common.world_size;
  if (who->worker_count > world || who->rank_first > world - who->worker_count) return;
  ends.push_back({ending::lost, who->rank_first, who->rank_first + who->worker_count - 1});
}

}  // namespace ddprun::core
