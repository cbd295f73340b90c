// What waiting nodes are told beside the reason (view.cpp): how long the wait goes on, which nodes
// are missing since when, which differ in what, and what may have been started wrongly.
#include "rendezvous/core/run/waiting.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/name_text.hpp"
#include "rendezvous/base/rank_text.hpp"
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace ddprun::core {

namespace {

// Nodes that do not fit together are looked for among the first ones only: a person who types wrong
// options does so at a few hosts.
constexpr std::size_t looked_at_max = 64;

}  // namespace

void run::state::tell_wait(node& who) {
  const std::uint64_t told = std::max(who.wanted_seq, who.state.desired_seq);
  // A node that sits out gets a message of its own.
  message_pointer message = who.sits_out() ? nullptr : waiting.message_after(told, real_now);
  if (!message) {
    ddprun::desired value = base_desired(current, rounds, out, desired_phase::wait);
    // A node that waits while a round is on takes part in the next one.
    const bool is_spare = phase == run_phase::preparing || phase == run_phase::running;
    if (who.sits_out()) {
      value.text =
          (is_spare ? "this node waits without workers: " : "") + reason() +
          (is_spare ? "; it" : "; this node") +
          (who.is_left_out() ? left_out_advice(current, who.position_name()) : health_advice(who));
    } else {
      value.text =
          is_spare ? "this node waits as a spare: " + reason() + spare_advice(current, memberships)
                   : reason();
    }
    limit_wait(phase, current, claims, stale, closed, persisted, groups, clock, value);
    if (is_missed(phase, groups, settle, now)) value.gone = current.gone.told(real_now);
    if (phase == run_phase::gathering) {
      value.warning = misfits(options, current, groups, now);
      if (value.warning.empty()) value.warning = current.unable.text;
    }
    const std::uint64_t newest = value.seq;
    message = finished(std::move(value));
    if (!who.sits_out()) waiting.build(newest, real_now, message);
  }
  out.want(who, std::move(message));
  who.notice_seen = waiting.edition();
}

// Whether the waiting nodes lack those that are gone, or may lack them after a pause.
bool is_missed(const entered_phase& phase, const gathering& groups, const settle_timer& settle,
               machine_time now) {
  if (phase == run_phase::settling) return settle.is_pausing(now);
  const settings_group* const group = groups.largest();
  return phase == run_phase::gathering && (group == nullptr || !group->is_full());
}

// How long the wait goes on, if that is known.
void limit_wait(const entered_phase& phase, const current_instance& current,
                const recovery_claims& claims, const stale_workers& stale,
                const closed_instances& closed, const persisted_run& persisted,
                const gathering& groups, const machine_clock& clock, ddprun::desired& value) {
  if (phase != run_phase::gathering) return;
  std::optional<machine_time> until;
  if (is_recovering(phase, claims) || claims.has_claimants()) {
    until = claims.until();
  } else if (const settings_group* const group = groups.largest()) {
    if (group->is_full()) return;
    value.is_last_call = group->has_enough();
    until = value.is_last_call
                ? gathering::last_call_until(*group, clock.now(), phase.since())
                : std::optional(gather_until(phase, current, stale, closed, persisted,
                                             timing_of(current, groups), clock));
  }
  if (until) value.left = std::clamp(*until - clock.now(), duration::zero(), timer_max);
}

// What would let a spare take part.
std::string spare_advice(const current_instance& current, const round_memberships& memberships) {
  if (!current.settings) return {};
  if (memberships.size() >= current.settings->nodes_max) {
    return "; it steps in when a node is lost (a larger --nnodes uses all nodes from the start)";
  }
  if (current.settings->on_join == join_policy::restart) return {};
  return "; it takes part in the next round, or at once if all nodes are started with --on-join "
         "restart";
}

// The node whose settings count before the first round: the first one, unless the agent in which
// this daemon lives opened the run. Null: there is none yet. Settings mean nothing while nodes of a
// round that is running elsewhere may still come.
const node* first_here(const run_options& options, const entered_phase& phase,
                       const current_instance& current, const recovery_claims& claims,
                       const gathering& groups, machine_time now) {
  if (current.settings || phase != run_phase::gathering || is_recovering(phase, claims) ||
      claims.has_claimants()) {
    return nullptr;
  }
  const node* first = nullptr;
  for (const auto& [order, who] : groups.counted()) {
    if (!is_audible(current, now, *who)) continue;
    if (who->hosts_us) return who;
    if (options.opened_by || first != nullptr) continue;  // other nodes may come before that agent
    first = who;
    if (groups.size() == 1) break;  // all have the same settings, so any will do
  }
  return first;
}

const run_settings* settings_here(const run_options& options, const entered_phase& phase,
                                  const current_instance& current, const recovery_claims& claims,
                                  const gathering& groups, machine_time now) {
  if (current.settings) return &*current.settings;
  const node* const first = first_here(options, phase, current, claims, groups, now);
  return first == nullptr ? nullptr : &first->greeting.settings;
}

// The setting in which a node differs from the run; empty: in none.
std::string difference(const run_options& options, const entered_phase& phase,
                       const current_instance& current, const recovery_claims& claims,
                       const gathering& groups, machine_time now, const hello& greeting) {
  const run_settings* const settings = settings_here(options, phase, current, claims, groups, now);
  if (settings == nullptr) return {};
  const auto found = first_difference(greeting.settings, *settings);
  if (!found) return {};
  return found->name + " " + found->one + ", the run " + found->other;
}

// The same for the node itself, with what to do.
std::string difference_problem(const run_options& options, const entered_phase& phase,
                               const current_instance& current, const recovery_claims& claims,
                               const gathering& groups, machine_time now, const hello& greeting) {
  const std::string text = difference(options, phase, current, claims, groups, now, greeting);
  if (text.empty()) return {};
  return greeting.node + " has " + text + ": start all nodes of run " + options.run_id +
         " with the same options; " +
         where_another(greeting.job, job_here(options, phase, current)) +
         ", give it its own --rdzv-id";
}

// Waiting nodes are told of it.
void remember_refusal(const run_options& options, const entered_phase& phase,
                      current_instance& current, const recovery_claims& claims,
                      const gathering& groups, wait_message& waiting, machine_time now,
                      const hello& greeting) {
  if (phase == run_phase::preparing || phase == run_phase::running) return;
  current.refusal = greeting.node + " was refused: it has " +
                    difference(options, phase, current, claims, groups, now, greeting);
  waiting.change();
}

// The node has come only to say why it takes no part, so that the others know why they wait.
void dismiss_unable(const headcount& counts, current_instance& current, const round_numbers& rounds,
                    time_point real_now, outbox& out, node& who) {
  cause why = cause_of(rounds, who, cause_class::drain);
  why.text = who.state.causes.front().text;
  remember_departure(counts.phase, current, counts.waiting, real_now, who, why);
  current.unable = {who.position_name(), who.label() + " cannot take part: " + why.text};
  out.note(note_level::warning, current.unable.text);
  release(counts, current, rounds, out, who, 0);
}

// The same for such a node whose hello is refused as well: if its command line is wrong, the
// settings that could be read from it may differ from those of the others.
void hear_of_unable(current_instance& current, wait_message& waiting, outbox& out,
                    const agent_joined& event) {
  const hello& greeting = event.hello;
  current.unable = {position_name(greeting, event.peer_address, event.local_address),
                    greeting.node + " cannot take part: " + greeting.state.causes.front().text};
  out.note(note_level::warning, current.unable.text);
  waiting.change();
}

// "node-a", "node-a and 2 more".
std::string names_in(const gathering& groups, const settings_group& group) {
  for (const auto& [order, who] : groups.counted()) {
    if (who->group != &group) continue;
    const std::uint32_t others = group.here() - 1;
    return who->label() + (others == 0 ? "" : " and " + std::to_string(others) + " more");
  }
  return counted(group.here(), "node");
}

// "; they disagree: node-a has max-restarts 3, node-b 5: ...".
std::string disagreement(const run_options& options, const gathering& groups,
                         const settings_group& one, const settings_group& other) {
  const auto found = first_difference(one.settings(), other.settings());
  if (!found) return {};
  return "; they disagree: " + names_in(groups, one) + (one.here() == 1 ? " has " : " have ") +
         found->name + " " + found->one + ", " + names_in(groups, other) + " " + found->other +
         ": start all nodes of run " + options.run_id + " with the same options";
}

std::string full_text(const current_instance& current, const std::optional<started_job>& newcomer) {
  const std::uint32_t spares = current.settings->spares_max;
  const std::uint64_t all = std::uint64_t{current.settings->nodes_max} + spares;
  return "is full: " + counted(current.settings->nodes_max, "node") +
         (spares == 0 ? "" : " and " + counted(spares, "spare")) + (all == 1 ? " is" : " are") +
         " here; " + where_another(newcomer, current.job) +
         ", give it another --rdzv-id, because this one is in use; otherwise raise --nnodes or "
         "--spares";
}

std::string misfits(const run_options& options, const current_instance& current,
                    const gathering& groups, machine_time now) {
  const std::string scripts = different_scripts(options, groups);
  return scripts.empty() ? twins(current, groups, now) : scripts;
}

// In a run without an id from its user, two jobs may have met by chance. Arguments are not
// compared, because nodes of one job may differ in them.
std::string different_scripts(const run_options& options, const gathering& groups) {
  if (options.run_id != default_run_id) return {};
  const node* first = nullptr;
  std::size_t seen = 0;
  for (const auto& [order, who] : groups.counted()) {
    if (who->greeting.script.empty()) continue;
    if (++seen > looked_at_max) return {};
    if (first == nullptr) {
      first = who;
    } else if (who->greeting.script != first->greeting.script) {
      return "nodes of this run start different scripts, " + first->greeting.script + " on " +
             first->label() + " and " + who->greeting.script + " on " + who->label() +
             ": if these are two jobs, give each its own --rdzv-id (without one it is " +
             options.run_id + ")";
    }
  }
  return {};
}

// Finds two agents on one host that were given nothing to tell them apart: each would take the same
// GPUs.
std::string twins(const current_instance& current, const gathering& groups, machine_time now) {
  std::map<std::string, const node*> found;
  for (const auto& [order, who] : groups.counted()) {
    if (who->greeting.node_is_explicit || !is_audible(current, now, *who)) continue;
    if (found.size() == looked_at_max) return {};
    const auto [same, is_new] = found.try_emplace(who->lasting_name(), who);
    if (is_new) continue;
    return same->second->label() + " and " + who->label() +
           " are agents of this run on one host: if that is intended, give each its own GPUs "
           "(CUDA_VISIBLE_DEVICES) and name (--node-id)";
  }
  return {};
}

std::uint32_t run::gathers() const {
  const state& self = *state_;
  if (self.phase != run_phase::gathering) return 0;
  const settings_group* const group = self.groups.largest();
  return group == nullptr || group->has_enough() ? 0 : self.groups.here();
}

void run::state::handle(const neighbour_seen& event) {
  waiting.set_neighbour(event);
}

// "; another run waits for nodes at this endpoint: job05 (1 node): ...".
std::string neighbour_text(const neighbour_seen& neighbour) {
  if (neighbour.run_id.empty()) return {};
  return "; another run waits for nodes at this endpoint: " + neighbour.run_id + " (" +
         counted(neighbour.nodes, "node") + "): was the same --rdzv-id meant?";
}

std::shared_ptr<const daemon_message> wait_message::message_after(std::uint64_t told_seq,
                                                                  time_point now) const {
  const bool is_good = built_edition_ == edition_ && now - built_at_ <= wait_message_age_max;
  return is_good && seq_ > told_seq ? message_ : nullptr;
}

void wait_message::build(std::uint64_t seq, time_point now,
                         std::shared_ptr<const daemon_message> message) {
  DDPRUN_ASSERT(message && seq > seq_);
  built_edition_ = edition_;
  seq_ = seq;
  built_at_ = now;
  message_ = std::move(message);
}

namespace {

// "node-b (10.0.0.2, ranks 2 and 3)".
std::string subject(const departed_node& one) {
  std::vector<std::uint32_t> ranks(one.worker_count);
  std::iota(ranks.begin(), ranks.end(), one.rank_first);
  if (!one.was_member) return one.address.empty() ? one.node : one.node + " (" + one.address + ")";
  const std::string address = one.address.empty() ? "" : one.address + ", ";
  return one.node + " (" + address + text_of_ranks(ranks) + ")";
}

std::string verb(const cause& why, bool are_many) {
  if (why.kind == cause_class::node_lost) return are_many ? " were lost" : " was lost";
  return why.code == 0 ? " left" : " left on " + signal_name(why.code);
}

}  // namespace

void departures::add(const session_id& who, departed_node gone) {
  if (!gone.was_member && waited_.size() >= gone_waiting_max) return;
  auto& among = gone.was_member ? gone_ : waited_;
  among.try_emplace(who, entry{std::move(gone), next_order_++});
}

void departures::drop(const session_id& who) {
  gone_.erase(who);
  waited_.erase(who);
}

void departures::drop_waiting(const std::string& position_name) {
  std::erase_if(waited_,
                [&](const auto& one) { return one.second.node.position_name == position_name; });
}

const departures::entry& departures::first() const {
  const auto& among = gone_.empty() ? waited_ : gone_;
  return std::min_element(among.begin(), among.end(),
                          [](const auto& left, const auto& right) {
                            return left.second.order < right.second.order;
                          })
      ->second;
}

std::optional<departure> departures::told(time_point now) const {
  if (gone_.empty() && waited_.empty()) return std::nullopt;
  const departed_node& one = first().node;
  departure said;
  said.what = subject(one);
  const std::size_t others = gone_.size() + waited_.size() - 1;
  if (others != 0) said.what += " and " + counted(others, "more node");
  said.what += verb(one.cause, others != 0);
  said.age = std::max(now - one.at, duration::zero());
  said.why = one.cause.text;
  return said;
}

std::string departures::change(const std::vector<std::string>& newcomers, std::size_t count) const {
  std::vector<std::pair<std::uint64_t, std::string>> in_order;
  for (const auto& [session, one] : gone_)
    in_order.emplace_back(one.order, one.node.node);
  std::sort(in_order.begin(), in_order.end());
  std::vector<std::string> missing;
  for (auto& [order, name] : in_order)
    missing.push_back(std::move(name));
  if (missing.empty() && newcomers.empty()) return {};
  if (missing.empty()) {
    return text_of_names(newcomers, count) + (count == 1 ? " has joined" : " have joined");
  }
  if (newcomers.empty()) return "going on without " + text_of_names(missing);
  if (missing == newcomers) {
    return text_of_names(missing) + (count == 1 ? " is back" : " are back");
  }
  return text_of_names(missing) + (missing.size() == 1 ? " was" : " were") + " replaced by " +
         text_of_names(newcomers, count);
}

bool departures::has_lost() const {
  return std::any_of(gone_.begin(), gone_.end(), [](const auto& one) {
    return one.second.node.cause.kind == cause_class::node_lost;
  });
}

}  // namespace ddprun::core
