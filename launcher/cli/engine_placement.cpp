#include "launcher/cli/engine_placement.hpp"

#include <string>
#include <utility>
#include <variant>

namespace ddprun::launcher {
namespace {

// By hand, on the command line or in PET_*: then a recipe that worked with torchrun goes on as
// before, whichever engine runs it.
bool says_where_to_meet(const options_draft& draft) {
  for (const std::string_view option :
       {"rdzv-endpoint", "standalone", "master-addr", "master-port", "node-rank", "rdzv-backend"}) {
    if (!draft.words_of(option).empty()) return true;
  }
  return !draft.words_of("nnodes").empty() && draft.options.settings.nodes_max == 1;
}

cli::usage_error too_many_nodes(const options_draft& draft, const hosts::placement& placement) {
  return {draft.words_of("nnodes") + ": " + placement.engine + " has " +
          std::to_string(placement.nodes) + (placement.nodes == 1 ? " node" : " nodes") +
          "; ask it for more, or write what it has"};
}

// The options are settled as if these words had been typed.
void fill_in(options_draft& draft, hosts::placement placement) {
  launch_options& options = draft.options;
  const std::string said_by = placement.engine;
  if (draft.words_of("nnodes").empty()) {
    options.settings.nodes_min = options.settings.nodes_max = placement.nodes;
    draft.given["nnodes"] = said_by + ", of " + std::to_string(placement.nodes) + " nodes,";
  }
  if (placement.workers && draft.words_of("nproc-per-node").empty() && options.gpus.empty()) {
    options.workers = {worker_count_kind::number, *placement.workers};
  }
  if (options.run_id.empty()) options.run_id = std::move(placement.run_id);
  if (options.settings.nodes_max > 1) {
    options.endpoint = {std::move(placement.meeting_host), placement.meeting_port};
    draft.given["rdzv-endpoint"] = said_by;
    options.node_rank = placement.node_rank;
    options.more_ports = std::move(placement.more_meeting_ports);
    if (options.embed == embed_policy::automatic && !draft.is_host) {
      // Of several ports none is opened beside the one that rank 0 has chosen.
      if (placement.node_rank == 0)
        options.embed = embed_policy::always;
      else if (!options.more_ports.empty())
        options.embed = embed_policy::never;
    }
    if (options.local_address.empty()) options.local_address = std::move(placement.local_address);
  }
  options.notes.insert(options.notes.end(), placement.notes.begin(), placement.notes.end());
}

}  // namespace

cli::checked settle_placement(options_draft& draft,
                              const std::function<hosts::placement_outcome()>& find) {
  if (!find || says_where_to_meet(draft)) return {};
  hosts::placement_outcome outcome = find();
  if (auto* const error = std::get_if<cli::usage_error>(&outcome)) return std::move(*error);
  auto* const placement = std::get_if<hosts::placement>(&outcome);
  if (placement == nullptr) return {};
  const bool is_typed = !draft.words_of("nnodes").empty();
  if (is_typed && draft.options.settings.nodes_min > placement->nodes)
    return too_many_nodes(draft, *placement);
  fill_in(draft, std::move(*placement));
  return {};
}

}  // namespace ddprun::launcher
