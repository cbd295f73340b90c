// What people are told about a run: why it waits or what it does, and what its members do.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/choose.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::core {

class closed_instances;
struct current_instance;
class entered_phase;
class gathering;
struct member_view;
struct node;
class persisted_run;
class recovery_claims;
class roster;
class round_memberships;
class round_numbers;
class round_stop;
struct run_options;
class settings_group;
class stale_workers;
class wait_message;

std::string here_text(const gathering& groups);
std::string missing_ranks(const roster& nodes, const settings_group& group);
member_view member_seen(const round_memberships& memberships, const node& who, machine_time at);
std::string stopping_reason(const current_instance& current, const round_numbers& rounds,
                            const round_memberships& memberships, const round_stop& stop,
                            const timers& timing);
std::string gathering_reason(const run_options& options, const entered_phase& phase,
                             const current_instance& current, const recovery_claims& claims,
                             const stale_workers& stale, const closed_instances& closed,
                             const persisted_run& persisted, const roster& nodes,
                             const gathering& groups, const wait_message& waiting,
                             const machine_clock& clock);

// Says which ranks are on which node of a round, in a sentence that is bounded whatever the size of
// the world: every member gets it with its own rank, and shows it.
//
//   ranks 0-1 on node-a (10.0.0.1), 2-3 on node-b (10.0.0.2) and 14 more nodes with 28 workers

// A restart costs a member 1 KiB in all.
inline constexpr std::size_t members_text_max = 256;
inline constexpr std::size_t members_named_max = 6;

struct named_member {
  std::string_view label;
  std::string_view address;  // as people know it; empty: not known
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 1;
};

// `first` are the first members in group rank order, of `nodes` with `world_size` workers in all. A
// round of one node has no use for an address.
std::string members_text(const std::vector<named_member>& first, std::uint32_t nodes,
                         std::uint32_t world_size);

// The address by which people know a node: the given one, else one that leads there from other
// hosts, else any. `daemon_host` is the address at which others have reached the daemon's host,
// which is also that of a node that comes by loopback; empty: not known.
std::string_view known_address(const node_addresses& node, std::string_view daemon_host);

}  // namespace ddprun::core
