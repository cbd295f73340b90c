// Choose: DESIGN.md, rule 2. Which nodes take part in the next round, with which ranks, and where
// their workers meet.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::core {

struct current_instance;
struct headcount;
class membership;
struct node;
class outbox;
class recovery_claims;
class roster;
struct run_options;
class settings_group;

// Rank assignment chooses the members of a round and gives them their ranks: DESIGN.md, rule 2.
//
// Members of the last round come first, then joiners by node-rank hint (those with a hint before
// those without), natural order of host names and join order, up to `nodes_max`. Group rank 0 goes
// to a survivor while there is one, because a survivor is where a snapshot may lie in memory or on
// a local disk. Survivors keep their group ranks; joiners fill the holes, then follow at the end;
// holes that nobody fills are closed up. Global ranks are prefix sums of the worker counts; if
// nodes have different roles, ranks within a role are prefix sums over its nodes.
//
// The result depends on the candidates alone, not on the order in which they are handed in.
//
// Ownership: a candidate's `host` and `role` must outlive the call.

struct rank_candidate {
  std::string_view host;
  std::optional<std::uint32_t> node_rank;        // the person's hint
  std::optional<std::uint32_t> last_group_rank;  // in the last round; none: it was not a member
  std::uint64_t join_order = 0;                  // unique
  std::uint32_t worker_count = 1;
  std::string_view role = {};
};

struct assigned_ranks {
  std::size_t candidate = 0;          // index into what was handed in
  std::uint32_t rank_first = 0;       // global rank of its local rank 0
  std::optional<role_ranks> in_role;  // none: all have one role
};

struct rank_assignment {
  std::vector<assigned_ranks> by_group_rank;  // by group rank
  std::uint32_t world_size = 0;
};

rank_assignment assign_ranks(const std::vector<rank_candidate>& candidates,
                             std::uint32_t nodes_max);

// node2 before node10: runs of digits compare as numbers, everything else by byte. Names that
// differ in leading zeros only compare by byte, so that the order is total.
bool natural_less(std::string_view left, std::string_view right);

// The master address is where workers and tethers dial the leader of a round.
//
// In order: what the person gave with --local-addr; loopback for a round of one node, because only
// its own workers dial, and the port need not be open to anybody else; the leader's own address
// towards the daemon; what the daemon sees; and, for a leader on the daemon's own host, the address
// at which the other members reached the daemon. IPv4 addresses mapped into IPv6 are unmapped.
// While a member is on another host, a loopback, link-local or unspecified address is passed over,
// unless it was given.
//
// Hosts are told apart by the addresses that the daemon sees, not by name: two hosts of one name
// are normal.

struct node_addresses {
  std::string_view given;  // --local-addr; may be a name; empty: not given
  std::string_view own;    // of the agent's socket towards the daemon, as the agent says
  std::string_view seen;   // the same as the daemon sees it
  std::string_view local;  // the daemon's end
};

// `members` are all members in group rank order, the leader first. Empty when no address is known.
std::string choose_master_address(const std::vector<node_addresses>& members);

// "::ffff:10.0.0.1" becomes "10.0.0.1"; anything else stays.
std::string_view unmapped(std::string_view address);

bool is_loopback(std::string_view address);

// Whether the address leads nowhere from another host: loopback, link-local, unspecified or empty.
bool is_host_bound(std::string_view address);

// Nodes that claim the same --node-id or the same exact node rank (--node-rank of the static form,
// and of launchers that number their hosts): only one of them takes part.

// A node whose hello has just come, and which is not in the roster yet.
struct newcomer {
  const hello& greeting;
  const std::string& peer_address;
  machine_time came;
};
bool may_be_dead(const node& other, const newcomer& who);
bool holds_its_place(const roster& nodes, const node& who);
std::vector<node*> doubles_of(const roster& nodes, const hello& of);
bool replaces_one(const roster& nodes, const hello& of);
std::string id_problem(const current_instance& current, const roster& nodes, machine_time now,
                       const newcomer& who);
std::string rank_problem(const current_instance& current, const roster& nodes, machine_time now,
                         const newcomer& who);
void refuse_doubles(const headcount& counts, current_instance& current, recovery_claims& claims,
                    outbox& out, const node& holder, machine_time word_before);

// The choice itself, and what is said about it.

void note_changes(current_instance& current, time_point real_now, const std::vector<node*>& from,
                  const rank_assignment& chosen);
void forget_changes(current_instance& current, roster& nodes);
assignment assignment_of(const current_instance& current, const membership& of);
std::vector<node*> left_drained(const roster& nodes);
void fix_settings(const run_options& options, const headcount& counts, current_instance& current,
                  recovery_claims& claims, outbox& out, settings_group& group);
void refuse_others(const run_options& options, const headcount& counts, current_instance& current,
                   recovery_claims& claims, outbox& out, const settings_group& group);
void refuse_excess(const run_options& options, const headcount& counts, current_instance& current,
                   recovery_claims& claims, outbox& out);

}  // namespace ddprun::core
