// Nodes that claim the same --node-id or the same exact node rank (--node-rank of the static form,
// and of launchers that number their hosts): only one of them takes part.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <string>
#include <vector>

namespace ddprun::core {

struct current_instance;
struct headcount;
struct node;
class outbox;
class recovery_claims;
class roster;

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

}  // namespace ddprun::core
