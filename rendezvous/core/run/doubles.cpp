#include "rendezvous/core/run/doubles.hpp"

#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace ddprun::core {

namespace {

// Whether `condition` holds for any node with the same given id or exact rank, including the node
// itself.
template <class Condition>
bool any_double(const roster& nodes, const hello& of, const Condition& condition) {
  const auto any = [&condition](const roster::same_by_order& same) {
    return std::any_of(same.begin(), same.end(),
                       [&condition](const auto& entry) { return condition(*entry.second); });
  };
  return (of.node_is_explicit && any(nodes.of_id(of.node))) ||
         (is_exact(of) && any(nodes.of_rank(*of.node_rank)));
}

std::string rank_used_by(const node& other) {
  return "node rank " + std::to_string(*other.greeting.node_rank) + " is already used by " +
         other.label() + " at " + other.peer_address +
         node_rank_advice(other.greeting.settings.nodes_max);
}

std::string id_used_by(const node& other) {
  return "node id " + other.label() + " is already used by a node at " + other.peer_address +
         ": give each node its own --node-id";
}

std::string used_by(const node& holder, const hello& other) {
  const bool have_one_rank =
      is_exact(holder.greeting) && is_exact(other) && holder.greeting.node_rank == other.node_rank;
  return have_one_rank ? rank_used_by(holder) : id_used_by(holder);
}

}  // namespace

std::vector<node*> doubles_of(const roster& nodes, const hello& of) {
  std::vector<node*> found;
  any_double(nodes, of, [&](node& other) {
    const bool is_known = std::find(found.begin(), found.end(), &other) != found.end();
    if (other.greeting.session != of.session && !is_known) found.push_back(&other);
    return false;
  });
  return found;
}

// Whether this node is the one that may use its id and rank: a member of the round comes first,
// then a node that is a candidate already, then the one that came first.
bool holds_its_place(const roster& nodes, const node& who) {
  const auto weight = [](const node& one) { return 2 * (one.membership != nullptr) + one.counted; };
  return !any_double(nodes, who.greeting, [&](const node& other) {
    const bool competes =
        &other != &who && other.group == who.group && other.connection != 0 && is_fit(other);
    if (!competes || weight(other) < weight(who)) return false;
    return weight(other) > weight(who) || other.order < who.order;
  });
}

// A node that replaces a candidate needs no room of its own.
bool replaces_one(const roster& nodes, const hello& of) {
  return any_double(nodes, of, [](const node& other) { return other.counted; });
}

// `other` has not been heard since `who` came from another host: its host may have lost power a
// moment ago, and `who` may be its replacement. The next heartbeat tells. An agent that holds this
// daemon is certainly alive.
bool may_be_dead(const node& other, const newcomer& who) {
  return !other.hosts_us && other.peer_address != who.peer_address && other.heard <= who.came;
}

// The refusal if a node that is heard already has this node id. A fenced node keeps its id: it
// comes again once it has ended its workers.
std::string id_problem(const current_instance& current, const roster& nodes, machine_time now,
                       const newcomer& who) {
  if (!who.greeting.node_is_explicit) return {};
  for (const auto& [order, other] : nodes.of_id(who.greeting.node)) {
    if (other->node_state == node_state::closing || !is_audible(current, now, *other)) continue;
    if (other->node_state == node_state::fenced || !may_be_dead(*other, who))
      return id_used_by(*other);
  }
  return {};
}

// The refusal if a node that is heard already has this exact rank.
std::string rank_problem(const current_instance& current, const roster& nodes, machine_time now,
                         const newcomer& who) {
  if (!is_exact(who.greeting)) return {};
  for (const auto& [order, other] : nodes.of_rank(*who.greeting.node_rank)) {
    const bool is_here = other->node_state == node_state::here && is_audible(current, now, *other);
    if (!is_here || other->greeting.session == who.greeting.session) continue;
    if (!may_be_dead(*other, who)) return rank_used_by(*other);
  }
  return {};
}

// `holder` has sent a message, so it was not dead: refuses the nodes that came for its id or rank
// since its previous message.
void refuse_doubles(const headcount& counts, current_instance& current, recovery_claims& claims,
                    outbox& out, const node& holder, machine_time word_before) {
  // After a longer silence the others were right to come; holds_its_place() decides between them.
  if (counts.now - word_before >= 3 * timing_of(current, holder).heartbeat_interval) return;
  for (node* const other : doubles_of(counts.nodes, holder.greeting)) {
    const bool waits = other->node_state == node_state::here && other->membership == nullptr;
    if (other->order > holder.order && waits && other->came > word_before &&
        may_be_dead(holder, {other->greeting, other->peer_address, counts.now}))
      refuse(counts, current, claims, out, *other, used_by(holder, other->greeting));
  }
}

}  // namespace ddprun::core
