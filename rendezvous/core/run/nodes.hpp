// The nodes of a run: what it remembers of one session, and all of them; who of them may take part,
// and is answered.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/core/run/gather.hpp"
#include "rendezvous/core/run/round.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace ddprun::core {

struct current_instance;
class outbox;
class recovery_claims;
class round_numbers;
struct run_options;

// What a run remembers of one session.
//

using message_pointer = std::shared_ptr<const daemon_message>;

enum class node_state {
  here,      // waits, or is a member of the round
  claimant,  // came with an instance that a restarted daemon has not yet decided on
  fenced,    // must kill everything and join anew
  leaving,   // drained: told to close, the run goes on without it
  closing,   // its instance is closed: told so
};

// How it does what it is told. Only one that obeys is a candidate.
enum class obedience {
  obeys,
  overdue,  // has not stopped for longer than any stop can take; over when its workers are gone
  ignores,  // nor had it begun to; until it has done what it is told
};

// Whether it takes part while others are enough for a round.
enum class standing {
  regular,   // it does, unless its health check has found something
  needed,    // it does, unhealthy as it is: too few others were here
  left_out,  // it does not (--max-node-failures): it waits, as it may be needed again
};

// What its agents have in common, one beside the other or one after the other: the id that a person
// gave them, else the name of the host and, as two hosts of one name are normal, the address that
// the daemon sees: "node-b", "localhost (10.0.0.2)". The daemon's own host is reached by several.
inline std::string lasting_name(const hello& of, const std::string& seen,
                                const std::string& local) {
  if (of.node_is_explicit || of.host.empty()) return of.node;
  return seen == local ? of.host : of.host + " (" + seen + ")";
}

// What those have in common who fill one place, one after the other: "node rank 3" where ranks are
// exact, for a pod is replaced by one of another name and address; else their lasting name. It says
// nothing of where workers may live on: the last one may run, cut off, when the next has come.
inline std::string place_name(const hello& of, const std::string& seen, const std::string& local) {
  if (is_exact(of) && of.node_rank) return "node rank " + std::to_string(*of.node_rank);
  return lasting_name(of, seen, local);
}

struct past_ranks {
  std::uint32_t rank_first = 0;
  bool has_succeeded = false;
};

// One session. It lives as long as it is connected or has a group rank in the round.
struct node {
  ddprun::hello greeting;
  ddprun::status state;  // its newest
  std::string peer_address;
  std::string local_address;
  bool hosts_us = false;  // this daemon lives in its process
  instance_id fresh_instance = 0;
  std::uint64_t order = 0;
  connection_id connection = 0;  // 0: none
  machine_time heard{};          // its last word, or when the connection ended
  machine_time came{};           // its last hello
  std::uint64_t heard_step = 0;
  machine_time watch_at{};                               // when the roster looks for it
  core::node_state node_state = core::node_state::here;  // what it is taken for
  settings_group* group = nullptr;                       // kept by gathering, as `counted`
  bool counted = false;  // among those that the next round is chosen from
  message_pointer owed;  // to be told once the end of its instance is kept
  message_pointer wanted;
  std::uint64_t wanted_seq = 0;
  std::uint64_t notice_seen = 0;        // the edition of wait_message; 0: it does not wait
  std::uint64_t whereabouts_heard = 0;  // the edition of them that it has for sure

  core::membership* membership = nullptr;        // in the round; kept by round_memberships
  std::optional<std::uint32_t> last_group_rank;  // in the newest round that was chosen
  std::optional<past_ranks> ran;                 // in the last that ran, once that is over
  core::obedience obedience = core::obedience::obeys;
  // Since when its round's workers had run when it said hello; none: they were not started.
  std::optional<machine_time> ran_since;
  core::standing standing = core::standing::regular;
  bool drain_seen = false;

  const std::string& label() const { return greeting.node; }
  std::string lasting_name() const {
    return core::lasting_name(greeting, peer_address, local_address);
  }
  std::string place_name() const { return core::place_name(greeting, peer_address, local_address); }
  // It waits for as long as the others are enough.
  bool sits_out() const { return is_left_out() || is_unhealthy(); }
  bool is_unhealthy() const { return !state.unhealthy.empty() && !is_needed(); }
  bool is_left_out() const { return standing == core::standing::left_out; }
  bool is_needed() const { return standing == core::standing::needed; }
  bool leads() const { return membership != nullptr && membership->group_rank() == 0; }
  bool is_unacked() const { return membership != nullptr && membership->is_unacked(); }
};

// The nodes of a run: each session that is connected, may come back, or has a membership in the
// round; by join order, session, connection, and the id and rank that a person gave it; and when to
// look whether it is still heard of.
//
// Always: a node is known by its session, and by its connection while it has one; it is looked for
// at one moment at most. Entries are checked when they fire and moved then, so that a heartbeat
// touches none of them.
//
// Ownership: the nodes; a reference is good until `remove`.
class roster {
 public:
  using by_order = std::map<std::uint64_t, std::unique_ptr<node>>;

  // A session that is not known.
  node& admit(const hello& greeting);
  // It must have neither connection nor membership.
  void remove(node& who);

  node* find(connection_id connection) const;
  node* find(const session_id& session) const;
  // Of those with this id or rank given by hand, one behind the other, by join order.
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

  // To be looked for when it has been silent for so long.
  void watch(node& who, duration silence);
  void unwatch(node& who);
  std::optional<machine_time> next_look() const;
  node* due(machine_time now) const;  // whose moment has come

 private:
  by_order nodes_;
  std::map<session_id, node*> by_session_;
  std::unordered_map<connection_id, node*> by_connection_;
  std::unordered_map<std::string, same_by_order> by_given_id_;
  std::unordered_map<std::uint32_t, same_by_order> by_given_rank_;
  std::map<std::pair<machine_time, std::uint64_t>, node*> watch_;
  std::uint64_t next_order_ = 1;
};

// Nodes without connection that have no place in the round either: they may come back.
inline constexpr std::size_t absent_nodes_max = 8192;

// Workers may live, or may have been started, in the round that this status names; they live there,
// and are to be ended before another round; they are wanted there: one table by phase.
bool may_have_workers(const status& said);
bool has_living_workers(const status& said);
bool says_it_runs(const status& said);

// Also one that was told to stop when all was done there.
inline bool has_succeeded(const status& said) {
  return said.phase == member_phase::succeeded || said.succeeded;
}

// Who is here, may take part, and is answered.

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

}  // namespace ddprun::core
