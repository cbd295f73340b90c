#include "launcher/cli/engine_placement.hpp"

#include <string>
#include <utility>
#include <variant>

namespace ddprun::launcher {
namespace {

bool is_from_environment(const std::string& words) {
  return words.starts_with("PET_");
}

// Kubeflow's Trainer and its PyTorchJob pass the static form to their pods in PET_*. If the user
// has typed a range of nodes, these variables only say which node this is and where they meet.
void take_static_as_elastic(options_draft& draft) {
  launch_options& options = draft.options;
  const std::string nodes = draft.words_of("nnodes");
  if (options.settings.nodes_min == options.settings.nodes_max || is_from_environment(nodes))
    return;
  if (draft.master_address.empty() || !options.node_rank) return;
  for (const std::string_view option : {"rdzv-endpoint", "standalone", "rdzv-backend"}) {
    if (!draft.words_of(option).empty()) return;
  }
  for (const std::string_view option : {"master-addr", "master-port", "node-rank"}) {
    const std::string words = draft.words_of(option);
    if (!words.empty() && !is_from_environment(words)) return;
  }
  const bool has_port = !draft.words_of("master-port").empty();
  options.endpoint = {
      std::exchange(draft.master_address, {}),
      has_port ? std::exchange(options.master_port, std::uint16_t{0}) : default_master_port};
  draft.given["rdzv-endpoint"] = draft.words_of("master-addr");
  for (const std::string_view option : {"master-addr", "master-port"})
    draft.given.erase(option);
  if (options.embed == embed_policy::automatic && *options.node_rank == 0 && !draft.is_host)
    options.embed = embed_policy::always;
}

// True if the user has said this on the command line or in PET_*: a recipe that worked with
// torchrun must keep working, whichever engine runs it.
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

cli::usage_error no_number(const hosts::placement& placement) {
  return {placement.engine +
          " does not tell its pods how many they are; write --nnodes=N, or --nnodes=1 if each is a "
          "job of its own"};
}

// Index 0 of a single-pod job is told no more than that of a larger one. torchrun runs one node
// there, and so do we; a higher index proves that there are other pods, which would each train
// alone.
void take_first_as_only(const options_draft& draft, hosts::placement& placement) {
  const bool is_told = !draft.words_of("nnodes").empty() || draft.options.settings.spares_max != 0;
  if (placement.nodes != 0 || placement.node_rank != 0 || is_told) return;
  placement.nodes = 1;
  placement.notes.push_back(placement.engine +
                            " does not tell its pods how many they are: this one runs as one node; "
                            "if the job has several pods, write --nnodes=N");
}

cli::checked check_number(const options_draft& draft, const hosts::placement& placement) {
  const run_settings& settings = draft.options.settings;
  const bool is_typed = !draft.words_of("nnodes").empty();
  if (placement.nodes != 0) {
    if (is_typed && settings.nodes_min > placement.nodes) return too_many_nodes(draft, placement);
    return {};
  }
  if (!is_typed) return no_number(placement);
  if (placement.node_rank < settings.nodes_max + settings.spares_max) return {};
  return cli::usage_error{draft.words_of("nnodes") + ": " + "this pod of " + placement.engine +
                          " has index " + std::to_string(placement.node_rank) +
                          "; write the number of its completions, or give it fewer"};
}

// Applies the placement as if its words had been typed.
void take_placement(options_draft& draft, hosts::placement placement) {
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
      // Otherwise another agent on rank 0's host could take the port first, or open another of
      // several ports.
      options.embed = placement.node_rank == 0 ? embed_policy::always : embed_policy::never;
    }
    if (options.local_address.empty()) options.local_address = std::move(placement.local_address);
  }
  options.output.is_tagged = placement.tags_lines;
  options.notes.insert(options.notes.end(), placement.notes.begin(), placement.notes.end());
}

}  // namespace

cli::checked settle_placement(options_draft& draft,
                              const std::function<hosts::placement_outcome()>& find) {
  take_static_as_elastic(draft);
  if (!find || says_where_to_meet(draft)) return {};
  hosts::placement_outcome outcome = find();
  if (auto* const error = std::get_if<cli::usage_error>(&outcome)) return std::move(*error);
  auto* const placement = std::get_if<hosts::placement>(&outcome);
  if (placement == nullptr) return {};
  take_first_as_only(draft, *placement);
  if (const cli::checked wrong = check_number(draft, *placement)) return wrong;
  take_placement(draft, std::move(*placement));
  return {};
}

}  // namespace ddprun::launcher
