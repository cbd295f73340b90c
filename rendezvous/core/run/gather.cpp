// Gather, settle and choose: DESIGN.md, rules 1, 2 and 7; the groups in which nodes gather, what a
// choice waits for, and the reserves that step in if too few nodes are here: rules 13 and 14.
#include "rendezvous/core/run/gather.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/core/messages/wait_text.hpp"
#include "rendezvous/core/run/master_address.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/rank_assignment.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {

void run::state::check_gathering() {
  if (nodes.connected() == 0 && !current.is_decided()) return;
  if (is_recovering(phase, claims)) return;
  // Claimants without a connection have their grace to come back first.
  if (claims.has_claimants() && !decide_on_claims(true) && claims.has_claimants()) return;
  if (phase != run_phase::gathering) return;
  if (!current.is_decided()) begin_instance(nodes.some_connected());
  lose_ending();
  if (!current.is_decided()) return;  // it has lost the last node
  take_reserves(counts(), current, out);
  settings_group* const best = groups.ready(now, phase.since());
  if (best != nullptr && !stale_may_live(current, stale, closed, persisted, clock) &&
      start_round(*best))
    return;
  if (now >=
      gather_until(phase, current, stale, closed, persisted, timing_of(current, groups), clock)) {
    std::string text =
        "gave up after " + to_text(now - phase.since()) + " (join_timeout): " + reason();
    if (const auto gone = current.gone.told(real_now)) text += "; " + sentence_of(*gone);
    close(unmet_exit_code, current.last_cause, std::move(text));
  }
}

// The wait for workers of an older instance does not count, because no node here can shorten it.
machine_time gather_until(const entered_phase& phase, const current_instance& current,
                          const stale_workers& stale, const closed_instances& closed,
                          const persisted_run& persisted, const timers& timing,
                          const machine_clock& clock) {
  const machine_time since =
      current.settings
          ? phase.since()
          : std::max(phase.since(), clock.own(stale_until(stale, closed, persisted, clock)));
  return since + timing.join_timeout;
}

void run::state::begin_gathering() {
  enter(phase, waiting, now, run_phase::gathering);
  groups.begin_anew();
  for (auto& [order, who] : nodes) {
    if (is_candidate(nodes, *who)) tell_wait(*who);
  }
}

// Losses and drains come in groups (a rack, a reservation that ends), so wait for quiet.
void run::state::begin_settling() {
  enter(phase, waiting, now, run_phase::settling);
  if (settle.wants_quiet()) {
    settle.wait_for_quiet(timing_of(current, groups));
  } else {
    settle.wait_for_pause(now);
  }
  if (settle.is_over(now)) return choose();
  if (!settle.is_pausing(now)) return;
  // The pause lasts, so waiting nodes are told which nodes are lost meanwhile.
  for (const auto& [order, who] : nodes) {
    if (is_candidate(nodes, *who)) tell_wait(*who);
  }
}

// Chooses the next round once the last stop is over.
void run::state::choose() {
  release_unneeded(counts(), current);
  take_reserves(counts(), current, out);
  std::uint32_t spoken = 0;
  std::uint32_t silent = 0;
  for (const auto& [order, who] : nodes) {
    if (!is_candidate(nodes, *who)) continue;
    ++(stop.precedes(who->heard_step) ? spoken : silent);
  }
  // A node that was silent since before the stop may be dying with the others: its next heartbeat
  // tells. If the round is full without it, that is not waited for.
  const machine_time hold = stop.ordered_at() + 2 * timing_of(current, groups).heartbeat_interval;
  if (silent != 0 && spoken < current.settings->nodes_max && now < hold) {
    if (phase != run_phase::settling) enter(phase, waiting, now, run_phase::settling);
    settle.wait_for_words(silent, hold);
    return;
  }
  settle.end_pause();
  if (!let_drained_go()) return;
  if (spoken >= current.settings->nodes_min) {
    start_round(groups.first());
  } else {
    begin_gathering();
  }
}

// Connected nodes that have asked to leave and were not released yet.
std::vector<node*> left_drained(const roster& nodes) {
  std::vector<node*> drained;
  for (const auto& [order, who] : nodes) {
    if (who->node_state == node_state::here && who->state.draining && who->connection != 0) {
      drained.push_back(who.get());
    }
  }
  return drained;
}

// Releases the nodes that have asked to leave, once it has been quiet. If no other node is left,
// the run is closed, and the result is false.
bool run::state::let_drained_go() {
  settle.forget_losses();  // the next loss begins another group
  const std::vector<node*> drained = left_drained(nodes);
  const bool nobody_is_left = groups.here() == 0 && !drained.empty();
  if (nobody_is_left) {
    close(code_of_drain(drained.front()->state), current.last_cause,
          "every node was asked to leave");
    return false;
  }
  tell_what_is_next(current, nodes, out);
  for (node* const who : drained)
    release(counts(), current, rounds, out, *who, 0);
  return true;
}

namespace {

// Candidates by join order, with what the rules of choice compare.
std::vector<rank_candidate> rank_candidates(const std::vector<node*>& from) {
  std::vector<rank_candidate> candidates;
  candidates.reserve(from.size());
  for (const node* const who : from) {
    const auto group_rank =
        is_exact(who->greeting) ? who->greeting.node_rank : who->last_group_rank;
    candidates.push_back({who->greeting.host, who->greeting.node_rank, group_rank, who->order,
                          who->greeting.worker_count, who->greeting.role});
  }
  return candidates;
}

}  // namespace

// From the first round on there is one group.
void run::state::fix_settings(settings_group& group) {
  current.settings = group.settings();
  groups.fix(group);
  refuse_others(group);
  groups.forget_others();
}

// The refusal names the difference.
void run::state::refuse_others(const settings_group& group) {
  std::vector<node*> others;
  for (const auto& [order, who] : nodes) {
    if (who->group != nullptr && who->group != &group) others.push_back(who.get());
  }
  for (node* const who : others) {
    remember_refusal(options, phase, current, claims, groups, waiting, now, who->greeting);
    refuse(counts(), current, claims, out, *who,
           difference_problem(options, phase, current, claims, groups, now, who->greeting));
  }
}

// False: too few of the nodes that are here have sent a message since the stop was ordered.
bool run::state::start_round(settings_group& group) {
  std::vector<node*> from;
  for (const auto& [order, who] : nodes) {
    const bool is_fit = is_candidate(nodes, *who) && who->group == &group;
    if (is_fit && stop.precedes(who->heard_step)) from.push_back(who.get());
  }
  if (from.size() < group.settings().nodes_min) return false;
  fix_settings(group);
  current.warning = misfits(options, current, groups, now);
  const rank_assignment chosen = assign_ranks(rank_candidates(from), current.settings->nodes_max);
  note_changes(current, real_now, from, chosen);
  rounds.take_next();
  for (const auto& [order, who] : nodes)
    who->last_group_rank.reset();
  memberships.open(static_cast<std::uint32_t>(chosen.by_group_rank.size()));
  std::vector<node_addresses> addresses;
  addresses.reserve(chosen.by_group_rank.size());
  for (std::uint32_t group_rank = 0; group_rank < chosen.by_group_rank.size(); ++group_rank) {
    const assigned_ranks& ranks = chosen.by_group_rank[group_rank];
    node& member = *from[ranks.candidate];
    memberships.take(group_rank, member, ranks.rank_first, ranks.in_role);
    addresses.push_back({member.greeting.address, member.greeting.own_address, member.peer_address,
                         member.local_address});
  }
  note_placed(current, memberships, timing_of(current, groups));
  causes.clear();
  current.is_found = false;
  current.common = {};
  current.common.group_world_size = static_cast<std::uint32_t>(memberships.size());
  current.common.world_size = chosen.world_size;
  current.common.master_address = choose_master_address(addresses);
  enter(phase, waiting, now, run_phase::preparing);
  age.begin(now);
  memberships.start_until(now + timing_of(current, groups).start_timeout);

  node& leader = memberships.leader();
  ddprun::desired value = base_desired(current, rounds, out, desired_phase::prepare);
  value.world_size = current.common.world_size;
  value.group_world_size = current.common.group_world_size;
  value.master_address = current.common.master_address;
  memberships.command(*leader.membership, command::prepare);
  out.want(leader, finished(std::move(value)));
  out.note(note_level::info,
           "round " + std::to_string(rounds.newest()) + ": " + counted(memberships.size(), "node") +
               ", " + counted(current.common.world_size, "worker") + ", led by " + leader.label());
  refuse_left_out(options, counts(), current, claims, out);
  refuse_excess(options, counts(), current, claims, out);
  return true;
}

// What is said about newcomers and nodes that have gone; the members get it with their ranks.
void note_changes(current_instance& current, time_point real_now, const std::vector<node*>& from,
                  const rank_assignment& chosen) {
  std::vector<std::string> newcomers;
  std::size_t count = 0;
  for (const assigned_ranks& ranks : chosen.by_group_rank) {
    const node& member = *from[ranks.candidate];
    if (member.ran) continue;
    ++count;
    if (newcomers.size() < names_in_text_max) newcomers.push_back(member.label());
  }
  current.news.clear();
  current.unable = {};
  // In the first round every node is new, and all nodes look new to a restarted daemon: that is no
  // news.
  if (count < chosen.by_group_rank.size() || current.gone.has_members()) {
    current.news = current.gone.change(newcomers, count);
    const std::uint32_t losses = current.budget.node_losses(real_now);
    if (current.gone.has_lost() && losses != 0) {
      current.news += " (node loss " + std::to_string(losses) + " of " +
                      std::to_string(current.settings->node_losses_max) + " within an hour)";
    }
  }
  if (!current.refusal.empty()) {
    current.news += (current.news.empty() ? "" : "; ") + current.refusal;
  }
  if (!current.taken_back.empty()) {
    current.news += (current.news.empty() ? "" : "; ") + current.taken_back;
  }
}

// The members were told: later changes are news for the next round.
void forget_changes(current_instance& current, roster& nodes) {
  current.gone = {};
  current.refusal.clear();
  current.taken_back.clear();
  for (const auto& [order, who] : nodes)
    who->ran.reset();
}

assignment assignment_of(const current_instance& current, const membership& of) {
  assignment assigned = current.common;
  assigned.group_rank = of.group_rank();
  assigned.rank_first = of.rank_first();
  assigned.in_role = of.in_role();
  return assigned;
}

// A restarted daemon lets every node wait, because it cannot know yet how many will come. Once a
// round is chosen, it refuses those beyond the spares, the newest first.
void refuse_excess(const run_options& options, const headcount& counts, current_instance& current,
                   recovery_claims& claims, outbox& out) {
  const std::uint64_t room =
      std::uint64_t{current.settings->nodes_max} + current.settings->spares_max;
  std::vector<node*> excess;
  for (auto entry = counts.nodes.rbegin(); entry != counts.nodes.rend(); ++entry) {
    node& who = *entry->second;
    if (counts.groups.here() - excess.size() <= room) break;
    if (who.counted && who.membership == nullptr && !who.hosts_us) excess.push_back(&who);
  }
  for (node* const who : excess)
    refuse(counts, current, claims, out, *who,
           "run " + options.run_id + " " + full_text(current, who->greeting.job));
}

void gathering::join(node& who) {
  if (who.group != nullptr) return;
  const run_settings& wanted = who.greeting.settings;
  auto found = std::find_if(groups_.begin(), groups_.end(), [&wanted](const settings_group& one) {
    return one.settings() == wanted;
  });
  if (found == groups_.end()) {
    found = groups_.emplace(groups_.end());
    found->settings_ = wanted;
  }
  who.group = &*found;
  ++who.group->nodes_;
}

void gathering::leave(node& who) {
  DDPRUN_ASSERT(!who.counted);
  settings_group* const group = std::exchange(who.group, nullptr);
  if (group == nullptr || --group->nodes_ != 0 || is_fixed_) return;
  groups_.remove_if([group](const settings_group& one) { return &one == group; });
}

bool gathering::count(node& who, bool is_candidate) {
  if (is_candidate == who.counted || who.group == nullptr) return false;
  who.counted = is_candidate;
  const std::uint32_t change = is_candidate ? 1 : -1U;
  who.group->here_ += change;
  here_ += change;
  if (is_candidate) {
    counted_.emplace(who.order, &who);
  } else {
    counted_.erase(who.order);
  }
  DDPRUN_ASSERT(who.group->here_ <= who.group->nodes_ && who.group->here_ <= here_);
  return true;
}

std::optional<machine_time> gathering::last_call_until(const settings_group& one, machine_time now,
                                                       machine_time since) {
  // Only a new high starts it over, so that nodes that come and go cannot prolong it.
  if (one.here_ <= one.highest_ || !one.has_enough()) return one.last_call_until_;
  const timers& timing = one.settings_.timing;
  return std::min(now + timing.last_call_timeout, since + timing.join_timeout);
}

const settings_group* gathering::largest() const {
  const settings_group* best = nullptr;
  for (const settings_group& one : groups_) {
    if (one.here_ != 0 && (best == nullptr || one.here_ > best->here_)) best = &one;
  }
  return best;
}

bool gathering::is_ready(settings_group& one, machine_time now, machine_time since) {
  one.last_call_until_ = last_call_until(one, now, since);
  one.highest_ = std::max(one.highest_, one.here_);
  if (one.is_full()) return true;
  return one.has_enough() && one.last_call_until_ && now >= *one.last_call_until_;
}

settings_group* gathering::ready(machine_time now, machine_time since) {
  settings_group* best = nullptr;
  for (settings_group& one : groups_) {
    if (is_ready(one, now, since) && (best == nullptr || one.here_ > best->here_)) best = &one;
  }
  return best;
}

void gathering::begin_anew() {
  for (settings_group& one : groups_) {
    one.highest_ = 0;
    one.last_call_until_.reset();
  }
}

std::optional<machine_time> gathering::deadline(machine_time now) const {
  std::optional<machine_time> next;
  for (const settings_group& one : groups_) {
    const std::optional<machine_time>& until = one.last_call_until_;
    if (!one.has_enough() || !until || *until <= now) continue;
    next = next ? std::min(*next, *until) : *until;
  }
  return next;
}

void gathering::fix(settings_group& one) {
  DDPRUN_ASSERT(one.nodes_ != 0);
  is_fixed_ = true;
}

void gathering::forget_others() {
  DDPRUN_ASSERT(is_fixed_);
  groups_.remove_if([](const settings_group& one) { return one.nodes_ == 0; });
  DDPRUN_ASSERT(groups_.size() == 1);
}

void gathering::unfix() {
  is_fixed_ = false;
  groups_.remove_if([](const settings_group& one) { return one.nodes_ == 0; });
}

void gathering::clear() {
  DDPRUN_ASSERT(here_ == 0);
  *this = {};
}

void settle_timer::add_loss(machine_time now) {
  if (!has_losses_) first_loss_ = now;
  has_losses_ = true;
  last_loss_ = now;
}

void settle_timer::wait_for_quiet(const timers& timing) {
  DDPRUN_ASSERT(has_losses_);
  is_for_words_ = false;
  until_ = std::min(last_loss_ + timing.settle, first_loss_ + timing.settle_max);
}

void settle_timer::wait_for_words(std::uint32_t silent, machine_time until) {
  DDPRUN_ASSERT(silent != 0);
  is_for_words_ = true;
  silent_ = silent;
  until_ = until;
}

void settle_timer::end_silence_of_one() {
  DDPRUN_ASSERT(silent_ != 0);
  --silent_;
}

void settle_timer::wait_for_pause(machine_time now) {
  is_for_words_ = false;
  until_ = now;
}

bool settle_timer::is_over(machine_time now) const {
  if (is_pausing(now)) return false;
  return now >= until_ || (is_for_words_ && silent_ == 0);
}

// Reserves are nodes that are here and sit out because others are enough: nodes whose own check
// found something (DESIGN.md, rule 14), and nodes that were left out because they failed first
// (rule 13).
//
// If too few nodes are here without them, and enough with some, as many as are needed take part:
// unhealthy nodes before those that were left out; of the former those that came first, of the
// latter those that failed least often. A round with a bad node may fail again, but having no round
// is a failure already.

void take_reserves(const headcount& counts, current_instance& current, outbox& out) {
  const roster::orders& unhealthy = counts.nodes.unhealthy();
  if (unhealthy.empty() && current.failing.left_out() == 0) return;
  // Before the first round no node is left out, so there is an unhealthy one.
  const run_settings& settings =
      current.settings ? *current.settings : counts.nodes.at(*unhealthy.begin()).greeting.settings;
  const std::uint32_t least = settings.nodes_min;
  if (counts.groups.here() >= least) return;
  const std::vector<std::uint64_t> ill(unhealthy.begin(), unhealthy.end());
  // The agents of one node are left out, and step in, together.
  std::map<std::pair<std::uint32_t, std::string>, std::vector<node*>> left_out;
  std::size_t count = ill.size();
  for (const auto& [order, who] : counts.nodes) {
    if (!who->is_left_out() || who->connection == 0 || !is_able(*who)) continue;
    const std::string name = who->position_name();
    left_out[{current.failing.of(name), name}].push_back(who.get());
    ++count;
  }
  if (counts.groups.here() + count < least) return;
  for (const std::uint64_t order : ill) {
    if (counts.groups.here() >= least) return;
    need_unhealthy(counts, current, out, counts.nodes.at(order));
  }
  for (const auto& [failures_and_name, agents] : left_out) {
    if (counts.groups.here() >= least) return;
    take_back(counts, current, out, agents);
  }
}

// Lets an unhealthy node take part.
void need_unhealthy(const headcount& counts, current_instance& current, outbox& out, node& who) {
  who.participation = participation::needed;
  recount(counts, who);
  tell_taken(current, out,
             who.label() + " takes part though its health check says: " + who.state.unhealthy +
                 "; without it too few nodes are left");
}

// Lets a node that was left out take part again, with all its agents.
void take_back(const headcount& counts, current_instance& current, outbox& out,
               const std::vector<node*>& agents) {
  const std::string name = agents.front()->position_name();
  current.failing.take_back(name);
  for (node* const who : agents) {
    who->participation = participation::regular;
    recount(counts, *who);
  }
  tell_taken(current, out,
             agents.front()->label() +
                 " takes part again, though its workers were the first to fail " +
                 times(current.failing.of(name)) + ": without it too few nodes are left");
  for (node* const who : agents) {
    if (who->is_unhealthy()) need_unhealthy(counts, current, out, *who);
  }
}

void tell_taken(current_instance& current, outbox& out, const std::string& text) {
  out.note(note_level::warning, text);
  current.taken_back += (current.taken_back.empty() ? "" : "; ") + text;
}

// Nodes whose own health check found something sit out for as long as the others are enough:
// DESIGN.md, rule 14.

// Updated with each message of a node, so that no rule has to scan all nodes.
void watch_health(roster& nodes, node& who) {
  if (who.state.unhealthy.empty() && who.is_needed()) who.participation = participation::regular;
  nodes.set_unhealthy(
      who, who.connection != 0 && is_able(who) && !who.is_left_out() && who.is_unhealthy());
}

// Nodes that were needed may not be any more: another has come, or is healthy again.
void release_unneeded(const headcount& counts, const current_instance& current) {
  for (const auto& [order, who] : counts.nodes) {
    if (!who->is_needed() || who->membership != nullptr) continue;
    const std::uint32_t others = counts.groups.here() - (who->counted ? 1 : 0);
    if (others < current.settings->nodes_min) continue;
    who->participation = participation::regular;
    recount(counts, *who);
  }
}

// A stop is over. Nodes that take no part in what follows are told of it with their next status.
void dismiss_unhealthy(roster& nodes, const wait_message& waiting) {
  for (const std::uint64_t order : nodes.unhealthy())
    nodes.at(order).notice_seen = waiting.edition();
}

// "node-b: GPU 3 needs a reset (and 2 more nodes)"; empty: no node sits out for its health.
std::string unhealthy_text(const roster& nodes) {
  const roster::orders& unhealthy = nodes.unhealthy();
  if (unhealthy.empty()) return {};
  const node& first = nodes.at(*unhealthy.begin());
  std::string text = first.label() + ": " + first.state.unhealthy;
  if (unhealthy.size() > 1) text += " (and " + counted(unhealthy.size() - 1, "more node") + ")";
  return text;
}

// Appended to what is done next; empty: no node sits out, or too few are left without them.
std::string health_phrase(const current_instance& current, const roster& nodes,
                          const gathering& groups) {
  if (nodes.unhealthy().empty() || groups.here() < current.settings->nodes_min) return {};
  return "; without " + unhealthy_text(nodes);
}

// What such a node is told, after "this node".
std::string health_advice(const node& who) {
  return " sits out until its health check finds nothing (" + who.state.unhealthy +
         "), or too few other nodes are left";
}

}  // namespace ddprun::core
