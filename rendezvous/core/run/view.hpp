// What people are told about a run: why it waits or what it does, and what its members do.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>

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

}  // namespace ddprun::core
