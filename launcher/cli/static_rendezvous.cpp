#include "launcher/cli/static_rendezvous.hpp"

#include <utility>

namespace ddprun::launcher {
namespace {

// torchrun uses it whenever nothing else is given; here a number of nodes alone does not say where
// to meet.
bool asks_for_it(const options_draft& draft) {
  if (!draft.backend.empty()) return draft.backend == "static";
  const bool meets_elsewhere =
      !draft.words_of("rdzv-endpoint").empty() || !draft.words_of("standalone").empty();
  return !meets_elsewhere && (!draft.master_address.empty() ||
                              !draft.words_of("master-port").empty() || draft.options.node_rank);
}

// As in torchrun: with this backend the endpoint is another form of --master-addr and
// --master-port.
void take_endpoint(options_draft& draft) {
  const std::string endpoint = draft.words_of("rdzv-endpoint");
  if (endpoint.empty()) return;
  launch_options& options = draft.options;
  const bool are_both = !draft.master_address.empty() || !draft.words_of("master-port").empty();
  if (are_both) {
    options.notes.push_back("--master-addr and --master-port are ignored: " + endpoint +
                            " says where the nodes meet");
  }
  draft.master_address = options.endpoint.host;
  options.master_port = options.endpoint.port;
  draft.given.emplace("master-port", endpoint);
  draft.given.erase("rdzv-endpoint");
}

cli::checked check_size(const options_draft& draft) {
  const launch_options& options = draft.options;
  const run_settings& settings = options.settings;
  const std::string nodes = draft.words_of("nnodes");
  if (settings.nodes_min != settings.nodes_max) {
    return cli::usage_error{nodes +
                            ": nodes that meet at --master-addr are numbered by --node-rank, so "
                            "how many there are is fixed: write one number, or use "
                            "--rdzv-endpoint=HOST[:PORT] for MIN:MAX"};
  }
  if (settings.spares_max != 0) {
    return cli::usage_error{draft.words_of("spares") +
                            ": nodes that meet at --master-addr are numbered by --node-rank, and a "
                            "spare has no number: leave it out, or use "
                            "--rdzv-endpoint=HOST[:PORT]"};
  }
  if (options.node_rank.value_or(0) >= settings.nodes_max) {
    return cli::usage_error{draft.words_of("node-rank") + ": with " + nodes +
                            " the nodes have the ranks 0 to " +
                            std::to_string(settings.nodes_max - 1)};
  }
  return {};
}

}  // namespace

cli::checked settle_static(options_draft& draft) {
  if (!asks_for_it(draft)) return {};
  launch_options& options = draft.options;
  take_endpoint(draft);
  if (options.settings.nodes_max == 1) return {};
  if (const cli::checked wrong = check_size(draft)) return wrong;
  if (options.embed != embed_policy::automatic || draft.is_host) {
    const std::string words = draft.words_of("embed-daemon");
    return cli::usage_error{(words.empty() ? "is_host of --rdzv-conf" : words) +
                            ": with --master-addr the node with --node-rank=0 runs the daemon; "
                            "leave it out"};
  }
  if (draft.words_of("master-port").empty()) options.master_port = default_master_port;
  if (options.master_port == 0) {
    return cli::usage_error{draft.words_of("master-port") +
                            ": all nodes must know the port, so it cannot be 0 (" +
                            std::to_string(default_master_port) + " when left out)"};
  }
  if (!draft.empty_master_address.empty() && draft.master_address.empty()) {
    return cli::usage_error{
        draft.empty_master_address +
        " is empty (is it a shell variable that is not set?): write the address "
        "of the node with --node-rank=0, on all nodes"};
  }
  if (draft.master_address.empty()) draft.master_address = "127.0.0.1";
  options.is_static = true;
  options.endpoint = {draft.master_address, options.master_port};
  options.settings.ranks = rank_policy::exact;
  if (options.run_id.empty()) options.run_id = "none";
  // A node without a rank has rank 0, and runs the daemon if the address is its own.
  if (options.node_rank) {
    options.embed = *options.node_rank == 0 ? embed_policy::always : embed_policy::never;
  }
  options.node_rank = options.node_rank.value_or(0);
  if (*options.node_rank != 0) return {};
  // Workers are told the address that was typed.
  if (const std::string local = draft.words_of("local-addr"); !local.empty()) {
    options.notes.push_back(local + " is ignored: workers are told " + draft.master_address +
                            ", the --master-addr");
  }
  options.local_address = draft.master_address;
  return {};
}

}  // namespace ddprun::launcher
