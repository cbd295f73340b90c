// What people are told about a run: why it waits or what it does, and what its members do.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>

namespace ddprun::core {

struct current_instance;
class gathering;
struct member_view;
struct node;
class roster;
class round_memberships;
class round_numbers;
class round_stop;
class settings_group;

std::string here_text(const gathering& groups);
std::string missing_ranks(const roster& nodes, const settings_group& group);
member_view member_seen(const round_memberships& memberships, const node& who, machine_time at);
std::string stopping_reason(const current_instance& current, const round_numbers& rounds,
                            const round_memberships& memberships, const round_stop& stop,
                            const timers& timing);

}  // namespace ddprun::core
