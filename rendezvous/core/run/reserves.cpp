// Reserves are nodes that are here and sit out as others are enough: those whose own check found
// something (DESIGN.md, rule 14), and those that were left out as they failed first (rule 13).
//
// Too few are here without them, and enough with some: as many as are needed take part, an
// unhealthy one before one that was left out; of the former who came first, of the latter who
// failed least often. A round with a bad node may fail again; no round at all has failed already.
#include "rendezvous/base/counted.hpp"
#include "rendezvous/core/run/rules.hpp"
#include "rendezvous/core/run/state.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {

void run::state::take_reserves() {
  if (unhealthy.empty() && current.failing.left_out() == 0) return;
  // No node is left out before the first round.
  const run_settings& settings =
      current.settings ? *current.settings : nodes.at(*unhealthy.begin()).greeting.settings;
  const std::uint32_t least = settings.nodes_min;
  if (groups.here() >= least) return;
  const std::vector<std::uint64_t> ill(unhealthy.begin(), unhealthy.end());
  // The agents of one node are left out, and step in, together.
  std::map<std::pair<std::uint32_t, std::string>, std::vector<node*>> left_out;
  std::size_t count = ill.size();
  for (const auto& [order, who] : nodes) {
    if (!who->is_left_out || who->connection == 0 || !is_able(*who)) continue;
    const std::string name = who->place_name();
    left_out[{current.failing.of(name), name}].push_back(who.get());
    ++count;
  }
  if (groups.here() + count < least) return;
  for (const std::uint64_t order : ill) {
    if (groups.here() >= least) return;
    need_unhealthy(nodes.at(order));
  }
  for (const auto& [failures_and_name, agents] : left_out) {
    if (groups.here() >= least) return;
    take_back(agents);
  }
}

// That sits out, as its own check found something.
void run::state::need_unhealthy(node& who) {
  who.is_needed = true;
  recount(who);
  tell_taken(who.label() + " takes part though its health check says: " + who.state.unhealthy +
             "; without it too few nodes are left");
}

// The agents of a node that was left out.
void run::state::take_back(const std::vector<node*>& agents) {
  const std::string name = agents.front()->place_name();
  current.failing.take_back(name);
  for (node* const who : agents) {
    who->is_left_out = false;
    recount(*who);
  }
  tell_taken(agents.front()->label() + " is in again, though its workers were the first to fail " +
             times(current.failing.of(name)) + ": without it too few nodes are left");
  for (node* const who : agents) {
    if (who->is_unhealthy()) need_unhealthy(*who);
  }
}

void run::state::tell_taken(const std::string& text) {
  note(note_level::warning, text);
  current.taken_back += (current.taken_back.empty() ? "" : "; ") + text;
}

}  // namespace ddprun::core
