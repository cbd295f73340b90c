// Node ranks that people gave their nodes, where each must have its own: --node-rank of the static
// form, and of engines that count their hosts.
#include "rendezvous/core/messages/validation.hpp"
#include "rendezvous/core/run/rules.hpp"
#include "rendezvous/core/run/state.hpp"

#include <string>
#include <vector>

namespace ddprun::core {

// It is the one that its node rank stands for, where each node has to have its own: a member of the
// round, else who is among the candidates already, else who came first.
bool holds_its_rank(const roster& nodes, const node& who) {
  if (!is_exact(who.greeting)) return true;
  const auto weight = [](const node& one) { return 2 * (one.membership != nullptr) + one.counted; };
  for (const auto& [order, other] : nodes.of_rank(*who.greeting.node_rank)) {
    const bool competes =
        other != &who && other->group == who.group && other->connection != 0 && is_fit(*other);
    if (!competes || weight(*other) < weight(who)) continue;
    if (weight(*other) > weight(who) || order < who.order) return false;
  }
  return true;
}

namespace {

std::string used_by(const node& other) {
  return "node rank " + std::to_string(*other.greeting.node_rank) + " is already used by " +
         other.label() + " at " + other.peer_address +
         node_rank_advice(other.greeting.settings.nodes_max);
}

}  // namespace

// Its host may have lost power a moment ago, and what comes from another one replaces it: nothing
// has been heard from it since. The next heartbeat tells.
bool may_be_dead(const node& other, const newcomer& who) {
  return !other.hosts_us && other.peer_address != who.peer_address && other.heard <= who.came;
}

// That its node rank is another's, who is not away.
std::string rank_problem(const current_instance& current, const roster& nodes, machine_time now,
                         const newcomer& who) {
  if (!is_exact(who.greeting)) return {};
  for (const auto& [order, other] : nodes.of_rank(*who.greeting.node_rank)) {
    const bool is_here = other->node_state == node_state::here && is_audible(current, now, *other);
    if (!is_here || other->greeting.session == who.greeting.session) continue;
    if (!may_be_dead(*other, who)) return used_by(*other);
  }
  return {};
}

// `holder` was not dead: those that have come for its rank since its word before are one too many.
void run::state::refuse_doubles(const node& holder, machine_time word_before) {
  if (!is_exact(holder.greeting)) return;
  if (now - word_before >= 3 * timing_of(current, holder).heartbeat_interval) return;
  std::vector<node*> doubles;
  for (const auto& [order, other] : nodes.of_rank(*holder.greeting.node_rank)) {
    const bool waits = other->node_state == node_state::here && other->membership == nullptr;
    if (order > holder.order && waits && other->came > word_before &&
        may_be_dead(holder, {other->greeting, other->peer_address, now}))
      doubles.push_back(other);
  }
  for (node* const other : doubles)
    refuse(*other, used_by(holder));
}

}  // namespace ddprun::core
