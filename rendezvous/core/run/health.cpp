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

// Too few are here without them, and enough with some: these take part, who came first before the
// others. A round with a bad node may fail again; no round at all has failed already.
void run::state::take_unhealthy() {
  if (unhealthy.empty()) return;
  const node& first = nodes.at(*unhealthy.begin());
  const std::uint32_t least =
      (current.settings ? *current.settings : first.greeting.settings).nodes_min;
  const std::uint32_t here = groups.here();
  if (here >= least || here + unhealthy.size() < least) return;
  const std::vector<std::uint64_t> candidates(unhealthy.begin(), unhealthy.end());
  for (const std::uint64_t order : candidates) {
    if (groups.here() >= least) return;
    node& who = nodes.at(order);
    who.is_needed = true;
    recount(who);
    const std::string text = who.label() +
                             " takes part though its health check says: " + who.state.unhealthy +
                             "; without it too few nodes are left";
    note(note_level::warning, text);
    current.taken_back += (current.taken_back.empty() ? "" : "; ") + text;
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
