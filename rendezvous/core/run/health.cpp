// Nodes whose own health check found something: they sit out for as long as the others are enough.
// DESIGN.md, rule 14.
#include "rendezvous/base/counted.hpp"
#include "rendezvous/core/run/rules.hpp"
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {

// Kept with each word of a node, so that nobody has to look through all of them.
void run::state::watch_health(node& who) {
  if (who.state.unhealthy.empty()) who.is_needed = false;
  if (who.connection != 0 && is_able(who) && !who.is_left_out && who.is_unhealthy()) {
    unhealthy.insert(who.order);
  } else {
    unhealthy.erase(who.order);
  }
}

// Some of those that were needed may not be any more: another has come, or is well again.
void run::state::release_unneeded() {
  for (const auto& [order, who] : nodes) {
    if (!who->is_needed || who->membership != nullptr) continue;
    const std::uint32_t others = groups.here() - (who->counted ? 1 : 0);
    if (others < current.settings->nodes_min) continue;
    who->is_needed = false;
    recount(*who);
  }
}

// A stop is over: whatever comes next is news to those that take no part in it.
void run::state::dismiss_unhealthy() {
  for (const std::uint64_t order : unhealthy)
    nodes.at(order).notice_seen = notice.edition();
}

// "node-b: GPU 3 needs a reset (and 2 more nodes)"; empty: none sits out for that.
std::string run::state::unhealthy_text() const {
  if (unhealthy.empty()) return {};
  const node& first = nodes.at(*unhealthy.begin());
  std::string text = first.label() + ": " + first.state.unhealthy;
  if (unhealthy.size() > 1) text += " (and " + counted(unhealthy.size() - 1, "more node") + ")";
  return text;
}

// Behind what is done next; empty where nobody sits out, or too few are left without them.
std::string run::state::health_phrase() const {
  if (unhealthy.empty() || groups.here() < current.settings->nodes_min) return {};
  return "; without " + unhealthy_text();
}

// What such a node hears, behind "this node".
std::string health_advice(const node& who) {
  return " sits out until its health check finds nothing (" + who.state.unhealthy +
         "), or too few other nodes are left";
}

}  // namespace ddprun::core
