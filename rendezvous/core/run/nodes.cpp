// The nodes of a run: which are known and which are watched (roster), connections, sessions,
// refusals, and what a hello tells about its sender.
#include "rendezvous/core/run/nodes.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/messages/settings_table.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/core/messages/versions.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::core {

namespace {

// What the phase of a member says of its workers in the round that it names.
struct workers_by_phase {
  bool may_live = false;    // or may have been started
  bool live = false;        // they do live, and have to be ended
  bool are_wanted = false;  // it has its assignment, and was not told to stop
};

workers_by_phase workers_in(member_phase phase) {
  switch (phase) {
    case member_phase::joined:
    case member_phase::stopped:
    case member_phase::lost:
      return {};
    case member_phase::preparing:
      return {.may_live = true};
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::failed:
      return {.may_live = true, .live = true, .are_wanted = true};
    case member_phase::succeeded:
      return {.may_live = true, .are_wanted = true};
    case member_phase::stopping:
      return {.may_live = true, .live = true};
  }
  return {.may_live = true, .live = true};
}

}  // namespace

bool may_have_workers(const status& said) {
  return said.round != 0 && workers_in(said.phase).may_live;
}

bool has_living_workers(const status& said) {
  return said.round != 0 && workers_in(said.phase).live;
}

bool says_it_runs(const status& said) {
  return said.round != 0 && said.assignment && workers_in(said.phase).are_wanted;
}

namespace {

// Whether this daemon lives in that agent, and so would end with it: the agent may wait even if
// there is no room for it. Only a connection from the daemon's own host is believed.
bool hosts_us(const agent_joined& event) {
  return event.hello.hosts_daemon && event.peer_address == event.local_address;
}

}  // namespace

// No more is believed than its settings allow.
void raise_restarts_used(current_instance& current, const node& by) {
  const run_settings& settings = by.greeting.settings;
  const bool is_refilled = settings.timing.restart_window > duration::zero();
  const std::uint32_t forgiven =
      is_refilled ? std::min({by.state.restarts_forgiven, by.state.restarts_used, restarts_limit})
                  : 0;
  current.budget.raise_restarts_used(
      std::min(by.state.restarts_used, forgiven + settings.restarts_max));
  current.budget.raise_restarts_forgiven(forgiven);
}

// A session that connects again replaces its old connection, which may be half-open.
void run::state::attach(node& who, const agent_joined& event) {
  if (who.connection != 0) detach(counts(), current, out, who, true);
  who.greeting = event.hello;
  // A node that finds no other here, neither waiting nor with a round of its own, is the first.
  if (groups.empty() && !claims.has_claimants()) nodes.set_first(who);
  take_from_first(who.greeting.settings.timing, nodes.first_timing());
  who.state = event.hello.state;
  who.greeting.state = {};
  who.peer_address = event.peer_address;
  who.local_address = event.local_address;
  who.hosts_us = hosts_us(event);
  who.fresh_instance = event.fresh_instance;
  nodes.connect(who, event.connection);
  who.heard = who.came = now;
  who.heard_step = steps;
  who.ran_since.reset();
  if (who.state.ran > duration::zero()) who.ran_since = now - who.state.ran;
  if (who.membership != nullptr) memberships.set_away(*who.membership, false);
  out.raise_seq(who.state.desired_seq);
  if (current.is_decided() && who.state.instance == current.id) raise_restarts_used(current, who);
  watch_over(current, nodes, who);
  out.send(who, std::make_shared<const daemon_message>(
                    welcome{out.epoch(), options.version, timing_of(current, who)}));
}

void detach(const headcount& counts, const current_instance& current, outbox& out, node& who,
            bool disconnect) {
  if (who.connection == 0) return;
  if (disconnect) out.disconnect(who.connection);
  counts.nodes.disconnect(who);
  who.heard = counts.now;
  // Causes are of use only for a member of the round, and are sent again after a reconnect.
  if (who.membership == nullptr) who.state.causes.clear();
  recount(counts, who);
  watch_over(current, counts.nodes, who);
}

// Connections that come and go each leave a node for a while. Half of these nodes are dropped at
// once, the longest absent first, so that scanning them costs no more than their coming did. A node
// that returns joins as a new one.
void forget_excess(const headcount& counts, current_instance& current, recovery_claims& claims,
                   const round_memberships& memberships, const machine_clock& clock, outbox& out) {
  if (counts.nodes.size() <= counts.nodes.connected() + memberships.size() + absent_nodes_max)
    return;
  std::vector<std::pair<machine_time, std::uint64_t>> absent;
  for (const auto& [order, who] : counts.nodes) {
    if (who->connection == 0 && who->membership == nullptr) absent.emplace_back(who->heard, order);
  }
  std::sort(absent.begin(), absent.end());
  out.note(note_level::warning,
           std::to_string(absent.size()) +
               " nodes have joined and lost their connections: forgot half of them");
  absent.resize(absent.size() / 2);
  for (const auto& [heard, order] : absent) {
    remember_lost(counts.phase, current, counts.stale, counts.closed, clock, counts.nodes.at(order),
                  false);
    forget(counts, current, claims, out, counts.nodes.at(order));
  }
}

void forget(const headcount& counts, current_instance& current, recovery_claims& claims,
            outbox& out, node& who) {
  DDPRUN_ASSERT(who.membership == nullptr);
  detach(counts, current, out, who, true);
  recount(counts, who);
  counts.stale.drop_ending(who.order);
  counts.groups.leave(who);
  counts.nodes.remove(who);
  // A run in which no node was ever placed is not worth remembering once all have gone.
  if (counts.nodes.empty() && !current.settings && counts.phase == run_phase::gathering) {
    current.id = 0;
    current.gone = {};
    claims.set_claimants(false);
  }
}

// What is wrong with a hello by itself, or beside the hello that the same session sent before.
std::string hello_problem(const run_options& options, const round_numbers& rounds,
                          const outbox& out, const hello& greeting, const node* known) {
  std::string problem = protocol_problem(greeting, options.version);
  if (problem.empty()) problem = problem_of(greeting);
  if (problem.empty()) problem = status_problem(rounds, out, greeting.state, greeting);
  if (!problem.empty() || known == nullptr) return problem;
  const std::string change = first_change(known->greeting, greeting);
  if (change.empty()) return {};
  return "the session of node " + known->greeting.node + " is here already, with another " + change;
}

// Rejects numbers that this daemon could not go on from, because it counts on above what agents of
// an earlier one name.
std::string status_problem(const round_numbers& rounds, const outbox& out, const status& said,
                           const hello& greeting) {
  const std::uint64_t newest = std::max(said.round, said.round_told);
  const std::uint64_t rounds_max = std::max(count_said_max, rounds.highest());
  const std::uint64_t seq_max = std::max(count_said_max, out.seq());
  if (newest > rounds_max) return "round " + std::to_string(newest) + " was never begun";
  if (said.desired_seq > seq_max) {
    return "desired_seq " + std::to_string(said.desired_seq) + " was never said";
  }
  return problem_of(said, greeting);
}

// Whether the node has been heard lately. A silent node is more likely the earlier life of a
// newcomer, on a host that lost power.
bool is_audible(const current_instance& current, machine_time now, const node& who) {
  return who.connection != 0 && now - who.heard < 3 * timing_of(current, who).heartbeat_interval;
}

// Why a new session is refused; empty: it is not.
std::string refusal(const run_options& options, const entered_phase& phase,
                    const current_instance& current, const recovery_claims& claims,
                    const roster& nodes, const gathering& groups, machine_time now,
                    const agent_joined& event) {
  const hello& greeting = event.hello;
  const newcomer coming{greeting, event.peer_address, now};
  if (std::string text = id_problem(current, nodes, now, coming); !text.empty()) return text;
  // A node that may have living workers is let in, because it has to be told to kill them.
  const bool comes_to_be_fenced = greeting.state.instance != 0 && may_have_workers(greeting.state);
  if (std::string text = rank_problem(current, nodes, now, coming);
      !text.empty() && !comes_to_be_fenced)
    return text;
  // The next instance takes the settings of its own nodes.
  if (phase == run_phase::closed) return {};
  if (!current.settings) {
    // The settings of a node that comes from an instance were compared before, or it is not known
    // which settings count. If this daemon lives in one of the nodes, those of that node count.
    const node* const first = first_here(options, phase, current, claims, groups, now);
    const bool is_bound = greeting.state.instance == 0 || (first != nullptr && first->hosts_us);
    if (!is_bound || comes_to_be_fenced || hosts_us(event)) return {};
    return difference_problem(options, phase, current, claims, groups, now, greeting);
  }
  // Refusing the node that holds this daemon would end the run for all.
  if (!comes_to_be_fenced && !hosts_us(event) && !is_short(phase, current, groups)) {
    const std::string name = position_name(greeting, event.peer_address, event.local_address);
    if (std::string text = left_out_text(options, current, name); !text.empty()) return text;
  }
  if (std::string text = difference_problem(options, phase, current, claims, groups, now, greeting);
      !text.empty())
    return text;
  // No node that is heard has this rank or id (see above), so the newcomer replaces a silent one.
  const bool has_room = is_exact(greeting) || replaces_one(nodes, greeting) ||
                        groups.here() < current.settings->nodes_max + current.settings->spares_max;
  if (!comes_to_be_fenced && !has_room && !hosts_us(event)) {
    return "run " + options.run_id + " " + full_text(current, greeting.job);
  }
  return {};
}

void refuse(const headcount& counts, current_instance& current, recovery_claims& claims,
            outbox& out, node& who, std::string text, int exit_code) {
  out.note_refusal("refused " + who.label() + ": " + text);
  out.send(who, std::make_shared<const daemon_message>(refused{exit_code, std::move(text)}));
  forget(counts, current, claims, out, who);
}

// Whether the node can take part, apart from its connection and from sitting out.
bool is_able(const node& who) {
  return who.node_state == node_state::here && !who.state.draining && who.state.unkillable == 0 &&
         who.obedience == obedience::obeys;
}

// Whether the node can take part, apart from its connection.
bool is_fit(const node& who) {
  return is_able(who) && !who.sits_out();
}

bool is_candidate(const roster& nodes, const node& who) {
  return who.connection != 0 && is_fit(who) && holds_its_place(nodes, who);
}

// An ack renews the lease of the node that gets it. A node that should have no workers, and may
// have some, gets none.
bool is_acked(const recovery_claims& claims, const node& who) {
  const bool may_live = may_have_workers(who.state);
  if (who.node_state == node_state::claimant && may_live && is_outdated_claim(claims, who))
    return false;
  return !who.is_unacked() && !(who.node_state == node_state::fenced && may_live);
}

namespace {

bool count_alone(const headcount& counts, node& who) {
  if (!counts.groups.count(who, is_candidate(counts.nodes, who))) return false;
  const std::string name = who.lasting_name();
  counts.persisted.count(name, who.counted);
  counts.closed.count(name, who.counted);
  return true;
}

// Counts the node as a candidate, or no longer; and so also the nodes with the same id or rank,
// which step in or back.
void count_with_doubles(const headcount& counts, node& who) {
  if (!count_alone(counts, who)) return;
  for (node* const other : doubles_of(counts.nodes, who.greeting))
    count_alone(counts, *other);
  if (counts.phase == run_phase::gathering) counts.waiting.change();
}

}  // namespace

// Updates what is known of all nodes after a change of one: which are stuck, which end workers of
// an older instance, and how many candidates are here.
void recount(const headcount& counts, node& who) {
  if (who.obedience == obedience::overdue && !may_have_workers(who.state)) {
    who.obedience = obedience::obeys;
  }
  watch_health(counts.nodes, who);
  const bool is_here = who.connection != 0 && who.node_state == node_state::here;
  const bool is_stuck = who.state.unkillable != 0 || who.obedience != obedience::obeys;
  counts.nodes.set_stuck(who, is_here && is_stuck);
  watch_ending(counts.stale, counts.waiting, counts.now, who);
  count_with_doubles(counts, who);
}

void watch_over(const current_instance& current, roster& nodes, node& who) {
  const timers& timing = timing_of(current, who);
  nodes.watch(who, who.connection != 0 ? timing.node_timeout
                                       : std::min(timing.reconnect_grace, timing.node_timeout));
}

// Decides by its newest status where a node that has just said hello belongs.
void run::state::recognise(node& who) {
  const status& said = who.state;
  // It is on its way out already, and may not have read the order.
  if (who.node_state == node_state::closing || who.node_state == node_state::leaving) {
    if (who.wanted) out.want(who, who.wanted);
    return;
  }
  if (who.node_state == node_state::fenced && said.instance == 0) {
    // It has killed its workers; its own instance may have been closed meanwhile.
    if (closed_instance* const record = closed.of(who.greeting, real_now)) {
      tell_closed(who, *record);
      return;
    }
  }
  // Before any claim: a node of a job that has lost the endpoint has no say in what runs here. A
  // member leaves with its round.
  const std::string taken =
      place_taken_text(options, phase, current, said.instance, who.greeting.job);
  if (!taken.empty() && who.membership == nullptr)
    return refuse(counts(), current, claims, out, who, taken, displaced_exit_code);
  // What is closed stays closed: this node begins the next instance.
  if (phase == run_phase::closed) open_instance(who.fresh_instance, who.greeting.job);
  // Which instance runs here is not decided yet, or this node may change that.
  if (is_recovering(phase, claims) || is_of_running_instance(phase, current, claims, who)) {
    claim(who);
    return;
  }
  if (who.node_state == node_state::claimant) who.node_state = node_state::here;
  if (!current.is_decided()) {
    if (said.instance != 0) {
      // No node is waited for any longer, so the first one that names an instance is believed.
      adopt(said.instance, {&who});
      return;
    }
    begin_instance(who);
  }
  // It names a newer round than the one that was found, so recovery has to begin again.
  if (outdates_found_round(current, rounds, claims, persisted, who)) {
    claim_anew(who);
  } else if (who.node_state == node_state::fenced && said.instance == 0) {
    queue_for_round(who);
  } else if (who.node_state == node_state::fenced ||
             (said.instance != current.id && knows_of_round(said))) {
    // It is of another instance that had a round, or has not shown yet that its workers are gone.
    fence(counts(), current, rounds, out, who);
  } else if (who.membership != nullptr) {
    // It gets acks again once it has begun to stop.
    if (shows_stop(current, who, said)) memberships.set_unacked(*who.membership, false);
    if (!who.is_unacked()) mark_reached(memberships, stop, now, *who.membership);
    current.gone.drop(who.greeting.session);
    recount(counts(), who);
    if (who.wanted) out.want(who, who.wanted);
    on_member_status(who, said);
  } else if (said.instance == current.id && fill_gap(who)) {
    return;
  } else if (completes_success(phase, current, rounds, who)) {
    close(0, std::nullopt,
          "every worker had succeeded when round " + std::to_string(rounds.newest()) +
              " was given up (" + current.last_end + ")");
  } else if (said.instance == current.id &&
             (may_have_workers(said) || said.round > rounds.newest())) {
    // It runs a round that is over here, or one that this daemon did not begin, and it comes too
    // late for that round to be found: what it runs has to end.
    fence(counts(), current, rounds, out, who);
  } else {
    queue_for_round(who);
  }
}

// Makes the node wait for the next round.
void run::state::queue_for_round(node& who) {
  who.node_state = node_state::here;
  // A node that came to be fenced was let in without comparing its settings. A node that has a
  // membership stays a member, whatever it says: its round goes on with it or ends.
  const bool is_member = who.membership != nullptr;
  const bool is_judged = current.settings && !is_member;
  if (const std::string text =
          difference_problem(options, phase, current, claims, groups, now, who.greeting);
      is_judged && !text.empty()) {
    remember_refusal(options, phase, current, claims, groups, waiting, now, who.greeting);
    return refuse(counts(), current, claims, out, who, text);
  }
  if (!is_member) {
    const std::string text = left_out_text(options, current, who.position_name());
    if (!text.empty() && !who.hosts_us && !is_short(phase, current, groups))
      return refuse(counts(), current, claims, out, who, text);
    if (!text.empty()) {
      who.participation = participation::left_out;
    } else if (who.is_left_out()) {
      who.participation = participation::regular;
    }
  }
  current.gone.drop(who.greeting.session);
  current.gone.drop_waiting(who.position_name());
  if (current.unable.position_name == who.position_name()) current.unable = {};
  groups.join(who);
  recount(counts(), who);
  if (const std::string text =
          rank_problem(current, nodes, now, {who.greeting, who.peer_address, who.came});
      !text.empty() && !is_member) {
    return refuse(counts(), current, claims, out, who, text);
  }
  // Before the first round the settings of the node that holds this daemon are right (rule 1).
  if (!current.settings && who.hosts_us &&
      settings_here(options, phase, current, claims, groups, now) == &who.greeting.settings) {
    refuse_others(options, counts(), current, claims, out, *who.group);
  }
  // The run may have filled up while the node was away.
  const bool may_be_refused = current.settings && who.counted && !who.hosts_us && !is_member;
  if (may_be_refused &&
      groups.here() > current.settings->nodes_max + current.settings->spares_max) {
    refuse(counts(), current, claims, out, who,
           "run " + options.run_id + " went on without this node and " +
               full_text(current, who.greeting.job));
    return;
  }
  tell_wait(who);
  on_idle_status(who);
}

// A status of a node that is here without a membership in the round.
void run::state::on_idle_status(node& who) {
  const bool was_counted = who.counted;
  const bool sat_out = nodes.unhealthy().contains(who.order);
  recount(counts(), who);
  if (who.state.signal == SIGINT && current.is_decided()) {
    cause why = cause_of(rounds, who, cause_class::operator_stop);
    why.code = SIGINT;
    stop_by_operator(std::move(why));
    return;
  }
  if (who.state.draining) {
    drain(who);
    return;
  }
  const bool has_changed =
      (who.counted && !was_counted) || nodes.unhealthy().contains(who.order) != sat_out;
  if (has_changed || waiting.is_news_after(who.notice_seen)) tell_wait(who);
  if (who.counted) join_restarts(who);
}

namespace {

using same_by_order = roster::same_by_order;

template <class Key>
const same_by_order& with_key(const std::unordered_map<Key, same_by_order>& all, const Key& key) {
  static const same_by_order nobody;
  const auto found = all.find(key);
  return found == all.end() ? nobody : found->second;
}

template <class Key>
void remove_from(std::unordered_map<Key, same_by_order>& all, const Key& key, const node& who) {
  same_by_order& same = all.at(key);
  same.erase(who.order);
  if (same.empty()) all.erase(key);
}

void set_among(roster::orders& all, std::uint64_t order, bool is_among) {
  if (is_among) {
    all.insert(order);
  } else {
    all.erase(order);
  }
}

}  // namespace

node& roster::admit(const hello& greeting) {
  auto owned = std::make_unique<node>();
  node& who = *owned;
  who.greeting = greeting;
  who.order = next_order_++;
  nodes_.emplace(who.order, std::move(owned));
  const bool is_new = by_session_.emplace(greeting.session, &who).second;
  DDPRUN_ASSERT(is_new);
  if (greeting.node_is_explicit) by_given_id_[greeting.node].emplace(who.order, &who);
  if (greeting.node_rank) by_given_rank_[*greeting.node_rank].emplace(who.order, &who);
  return who;
}

void roster::remove(node& who) {
  DDPRUN_ASSERT(who.connection == 0 && who.membership == nullptr);
  unwatch(who);
  by_session_.erase(who.greeting.session);
  if (who.greeting.node_is_explicit) remove_from(by_given_id_, who.greeting.node, who);
  if (const auto rank = who.greeting.node_rank) remove_from(by_given_rank_, *rank, who);
  nodes_.erase(who.order);
  DDPRUN_ASSERT(by_session_.size() == nodes_.size() && watch_.size() <= nodes_.size());
}

node* roster::find(connection_id connection) const {
  const auto found = by_connection_.find(connection);
  return found == by_connection_.end() ? nullptr : found->second;
}

node* roster::find(const session_id& session) const {
  const auto found = by_session_.find(session);
  return found == by_session_.end() ? nullptr : found->second;
}

const roster::same_by_order& roster::of_id(const std::string& id) const {
  return with_key(by_given_id_, id);
}

const roster::same_by_order& roster::of_rank(std::uint32_t node_rank) const {
  return with_key(by_given_rank_, node_rank);
}

node& roster::some_connected() const {
  DDPRUN_ASSERT(!by_connection_.empty());
  return *by_connection_.begin()->second;
}

void roster::connect(node& who, connection_id connection) {
  DDPRUN_ASSERT(connection != 0 && who.connection == 0);
  const bool is_new = by_connection_.emplace(connection, &who).second;
  DDPRUN_ASSERT(is_new);
  who.connection = connection;
}

void roster::disconnect(node& who) {
  const std::size_t erased = by_connection_.erase(who.connection);
  DDPRUN_ASSERT(erased == 1);
  who.connection = 0;
}

void roster::watch(node& who, duration silence) {
  unwatch(who);
  who.watch_at = who.heard + silence;
  watch_.emplace(std::pair(who.watch_at, who.order), &who);
}

void roster::unwatch(node& who) {
  watch_.erase({who.watch_at, who.order});
}

std::optional<machine_time> roster::next_look() const {
  if (watch_.empty()) return std::nullopt;
  return watch_.begin()->first.first;
}

void roster::set_stuck(const node& who, bool is_stuck) {
  set_among(stuck_, who.order, is_stuck);
}

void roster::set_unhealthy(const node& who, bool is_unhealthy) {
  set_among(unhealthy_, who.order, is_unhealthy);
}

node* roster::due(machine_time now) const {
  if (watch_.empty() || watch_.begin()->first.first > now) return nullptr;
  return watch_.begin()->second;
}

}  // namespace ddprun::core
