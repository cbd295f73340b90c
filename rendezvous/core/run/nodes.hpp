// The nodes of a run: one session, the roster of all, and which of them may take part and get acks.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/gather.hpp"
#include "rendezvous/core/run/round.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace ddprun::core {

struct agent_joined;
class closed_instances;
struct current_instance;
class entered_phase;
class outbox;
class persisted_run;
class recovery_claims;
class round_memberships;
class round_numbers;
struct run_options;
class stale_workers;
class wait_message;

using message_pointer = std::shared_ptr<const daemon_message>;

enum class node_state {
  here,      // waits, or is a member of the round
  claimant,  // came with an instance that a restarted daemon has not yet decided on
  fenced,    // must kill everything and join again
  leaving,   // drained: told to close, the run goes on without it
  closing,   // its instance is closed: told so
};

// Whether a node carries out its orders. Only one that does is a candidate.
enum class obedience {
  obeys,
  overdue,  // has not stopped for longer than any stop can take; over when its workers are gone
  ignores,  // has not even begun to stop; over when it has carried out its order
};

// Whether a node takes part while others are enough for a round.
enum class participation {
  regular,   // it does, unless its health check has found something
  needed,    // it does, unhealthy as it is: too few others were here
  left_out,  // it does not (--max-node-failures): it waits, as it may be needed again
};

// The name that all agents of a node share, at the same time or one after the other: the id that a
// person gave the node; otherwise its host name and, because two hosts may have one name, the
// address that the daemon sees: "node-b", "localhost (10.0.0.2)". The daemon's own host has no
// address in it, because its agents reach the daemon by several.
inline std::string lasting_name(const hello& of, const std::string& seen,
                                const std::string& local) {
  if (of.node_is_explicit || of.host.empty()) return of.node;
  return seen == local ? of.host : of.host + " (" + seen + ")";
}

// The name shared by nodes that fill one position one after the other: "node rank 3" if ranks are
// exact, because a pod is replaced by one of another name and address; otherwise their lasting
// name. It does not tell where workers may live: the last holder may run on, cut off, when the next
// one has come.
inline std::string position_name(const hello& of, const std::string& seen,
                                 const std::string& local) {
  if (is_exact(of) && of.node_rank) return "node rank " + std::to_string(*of.node_rank);
  return lasting_name(of, seen, local);
}

struct past_ranks {
  std::uint32_t rank_first = 0;
  bool has_succeeded = false;
};

// One session that is connected, may come back, or has a membership in the round.
struct node {
  ddprun::hello greeting;
  ddprun::status state;  // its newest
  std::string peer_address;
  std::string local_address;
  bool hosts_us = false;  // this daemon lives in its process
  instance_id fresh_instance = 0;
  std::uint64_t order = 0;
  connection_id connection = 0;  // 0: none
  machine_time heard{};          // its last message, or when the connection ended
  machine_time came{};           // its last hello
  std::uint64_t heard_step = 0;
  machine_time watch_at{};                               // when the roster checks for silence
  core::node_state node_state = core::node_state::here;  // as this daemon treats it
  settings_group* group = nullptr;                       // set by gathering, as is `counted`
  bool counted = false;                                  // is a candidate for the next round
  message_pointer owed;  // sent once the end of its instance is persisted
  message_pointer wanted;
  std::uint64_t wanted_seq = 0;
  std::uint64_t notice_seen = 0;        // the edition of wait_message it has; 0: it does not wait
  std::uint64_t whereabouts_heard = 0;  // the edition that it certainly has

  core::membership* membership = nullptr;        // in the round; set by round_memberships
  std::optional<std::uint32_t> last_group_rank;  // in the newest round that was chosen
  std::optional<past_ranks> ran;                 // in the last round that ran, once that is over
  core::obedience obedience = core::obedience::obeys;
  // Since when its round's workers had run when it said hello; none: they were not started.
  std::optional<machine_time> ran_since;
  core::participation participation = core::participation::regular;
  bool drain_seen = false;

  const std::string& label() const { return greeting.node; }
  std::string lasting_name() const {
    return core::lasting_name(greeting, peer_address, local_address);
  }
  std::string position_name() const {
    return core::position_name(greeting, peer_address, local_address);
  }
  // It waits for as long as the others are enough.
  bool sits_out() const { return is_left_out() || is_unhealthy(); }
  bool is_unhealthy() const { return !state.unhealthy.empty() && !is_needed(); }
  bool is_left_out() const { return participation == core::participation::left_out; }
  bool is_needed() const { return participation == core::participation::needed; }
  bool leads() const { return membership != nullptr && membership->group_rank() == 0; }
  bool is_unacked() const { return membership != nullptr && membership->is_unacked(); }
};

// The nodes of a run: each session that is connected, may come back, or has a membership in the
// round; by join order, session, connection, and the id and rank that a person gave it; and when to
// check each for silence.
//
// Always: a node is found by its session, and by its connection while it has one; it has at most
// one entry for the check. Entries are checked when they fire and moved then, so that a heartbeat
// touches none of them.
//
// Ownership: owns the nodes; a reference is valid until `remove`.
class roster {
 public:
  using by_order = std::map<std::uint64_t, std::unique_ptr<node>>;

  // Adds a session that is not known yet.
  node& admit(const hello& greeting);
  // It must have neither connection nor membership.
  void remove(node& who);

  node* find(connection_id connection) const;
  node* find(const session_id& session) const;
  // The nodes with this id or rank given by hand, by join order.
  using same_by_order = std::map<std::uint64_t, node*>;
  const same_by_order& of_id(const std::string& id) const;
  const same_by_order& of_rank(std::uint32_t node_rank) const;
  node& at(std::uint64_t order) const { return *nodes_.at(order); }

  bool empty() const { return nodes_.empty(); }
  std::size_t size() const { return nodes_.size(); }
  std::size_t connected() const { return by_connection_.size(); }
  node& some_connected() const;  // there must be one
  by_order::const_iterator begin() const { return nodes_.begin(); }
  by_order::const_iterator end() const { return nodes_.end(); }
  by_order::const_reverse_iterator rbegin() const { return nodes_.rbegin(); }
  by_order::const_reverse_iterator rend() const { return nodes_.rend(); }

  void connect(node& who, connection_id connection);
  void disconnect(node& who);

  // The node is due once it has been silent for this long.
  void watch(node& who, duration silence);
  void unwatch(node& who);
  std::optional<machine_time> next_look() const;
  node* due(machine_time now) const;  // whose moment has come

  // Nodes that are connected and take no part, by join order: those that cannot, because workers of
  // theirs do not end or they do not obey; and those that sit out as unhealthy.
  using orders = std::set<std::uint64_t>;
  const orders& stuck() const { return stuck_; }
  const orders& unhealthy() const { return unhealthy_; }
  void set_stuck(const node& who, bool is_stuck);
  void set_unhealthy(const node& who, bool is_unhealthy);

  // The timing of the node that came first, for take_from_first.
  const timers& first_timing() const { return first_timing_; }
  void set_first(const node& who) { first_timing_ = who.greeting.settings.timing; }

 private:
  by_order nodes_;
  std::map<session_id, node*> by_session_;
  std::unordered_map<connection_id, node*> by_connection_;
  std::unordered_map<std::string, same_by_order> by_given_id_;
  std::unordered_map<std::uint32_t, same_by_order> by_given_rank_;
  std::map<std::pair<machine_time, std::uint64_t>, node*> watch_;
  orders stuck_;
  orders unhealthy_;
  timers first_timing_;
  std::uint64_t next_order_ = 1;
};

// The most nodes with neither connection nor membership; they may come back.
inline constexpr std::size_t absent_nodes_max = 8192;

// Whether workers of the round that this status names may live, or may have been started; whether
// they do live, and have to end before another round; whether the node runs them and was not told
// to stop. One table by phase decides all three.
bool may_have_workers(const status& said);
bool has_living_workers(const status& said);
bool says_it_runs(const status& said);

// Also true for a node that was told to stop after its workers had succeeded.
inline bool has_succeeded(const status& said) {
  return said.phase == member_phase::succeeded || said.succeeded;
}

// The parts that know which nodes are candidates, stuck or unhealthy, and what workers they end:
// recount() keeps them in step after each change of a node.
struct headcount {
  const entered_phase& phase;
  stale_workers& stale;
  closed_instances& closed;
  persisted_run& persisted;
  roster& nodes;
  gathering& groups;
  wait_message& waiting;
  machine_time now;
};

// Which nodes are here, may take part, and get acks.

void raise_restarts_used(current_instance& current, const node& by);
bool is_audible(const current_instance& current, machine_time now, const node& who);
bool is_able(const node& who);
bool is_fit(const node& who);
bool is_candidate(const roster& nodes, const node& who);
bool is_acked(const recovery_claims& claims, const node& who);
void watch_over(const current_instance& current, roster& nodes, node& who);
std::string status_problem(const round_numbers& rounds, const outbox& out, const status& said,
                           const hello& greeting);
std::string hello_problem(const run_options& options, const round_numbers& rounds,
                          const outbox& out, const hello& greeting, const node* known);
std::string refusal(const run_options& options, const entered_phase& phase,
                    const current_instance& current, const recovery_claims& claims,
                    const roster& nodes, const gathering& groups, machine_time now,
                    const agent_joined& event);
void recount(const headcount& counts, node& who);
void detach(const headcount& counts, const current_instance& current, outbox& out, node& who,
            bool disconnect);
void forget(const headcount& counts, current_instance& current, recovery_claims& claims,
            outbox& out, node& who);
void forget_excess(const headcount& counts, current_instance& current, recovery_claims& claims,
                   const round_memberships& memberships, const machine_clock& clock, outbox& out);
void refuse(const headcount& counts, current_instance& current, recovery_claims& claims,
            outbox& out, node& who, std::string text, int exit_code = refused_exit_code);

}  // namespace ddprun::core
