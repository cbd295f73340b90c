// Gather and settle: DESIGN.md, rules 1 and 7; the groups in which nodes gather, what a
// choice waits for, and the reserves that step in if too few nodes are here: rules 13 and 14.
#include "rendezvous/core/run/gather.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/core/messages/wait_text.hpp"
#include "rendezvous/core/run/nodes.hpp"
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
  is_for_messages_ = false;
  until_ = std::min(last_loss_ + timing.settle, first_loss_ + timing.settle_max);
}

void settle_timer::wait_for_messages(std::uint32_t silent, machine_time until) {
  DDPRUN_ASSERT(silent != 0);
  is_for_messages_ = true;
  silent_ = silent;
  until_ = until;
}

void settle_timer::end_silence_of_one() {
  DDPRUN_ASSERT(silent_ != 0);
  --silent_;
}

void settle_timer::wait_for_pause(machine_time now) {
  is_for_messages_ = false;
  until_ = now;
}

bool settle_timer::is_over(machine_time now) const {
  if (is_pausing(now)) return false;
  return now >= until_ || (is_for_messages_ && silent_ == 0);
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
