#include "launcher/cli/options.hpp"

#include "launcher/cli/engine_placement.hpp"
#include "launcher/cli/option_table.hpp"
#include "launcher/cli/shutdown_timeout.hpp"
#include "launcher/cli/static_rendezvous.hpp"
#include "rendezvous/core/messages/settings_table.hpp"

#include <charconv>
#include <utility>

namespace ddprun::launcher {
namespace {

cli::checked check_program(const options_draft& draft) {
  const launch_options& options = draft.options;
  if (options.program.empty()) {
    return cli::usage_error{
        "no script given; usage: ddprun [OPTIONS] SCRIPT [ARGUMENTS], and ddprun --help"};
  }
  if (options.module && options.no_python && !options.run_path) {
    return cli::usage_error{draft.words_of("no-python") + " and " + draft.words_of("module") +
                            ": a module is run by Python; leave one of the two out"};
  }
  return {};
}

cli::checked check_standalone(const options_draft& draft) {
  const std::string standalone = draft.words_of("standalone");
  if (standalone.empty() || draft.options.settings.nodes_max == 1) return {};
  return cli::usage_error{standalone + " is for one node, and there is " +
                          draft.words_of("nnodes") + "; leave one of the two out"};
}

// Several nodes must know where to meet.
cli::usage_error no_endpoint(const options_draft& draft) {
  return {draft.words_of("nnodes") +
          " needs --rdzv-endpoint=HOST[:PORT], the same on all nodes: a ddprun-rendezvous daemon, "
          "or one of the nodes, which then runs it; or --master-addr=HOST, with --node-rank"};
}

// A single node without an endpoint has its daemon in this process, as with --standalone.
cli::checked settle_endpoint(options_draft& draft) {
  launch_options& options = draft.options;
  const bool one_node = options.settings.nodes_max == 1;
  const std::string standalone = draft.words_of("standalone");
  std::string endpoint = draft.words_of("rdzv-endpoint");
  if (!standalone.empty()) {
    if (!endpoint.empty()) options.notes.push_back(endpoint + " is ignored with --standalone");
    endpoint.clear();
  } else if (endpoint.empty() && !one_node) {
    return no_endpoint(draft);
  }
  // torchrun's documentation uses localhost:0 for one node.
  const bool any_port = one_node && !endpoint.empty() && options.endpoint.port == 0;
  if (endpoint.empty() || any_port) {
    options.standalone = true;
    options.endpoint = {"127.0.0.1", 0};
  } else if (options.endpoint.port == 0) {
    return cli::usage_error{endpoint + ": all nodes must know the port, so it cannot be 0 (" +
                            std::to_string(cli::default_endpoint_port) + " when left out)"};
  } else if (options.run_id.empty()) {
    options.run_id = "none";  // torchrun's default: nodes that all leave it out meet
  }
  return {};
}

cli::checked settle_embedding(options_draft& draft) {
  launch_options& options = draft.options;
  const std::string embed = draft.words_of("embed-daemon");
  if (draft.is_host) {
    const embed_policy asked = *draft.is_host ? embed_policy::always : embed_policy::never;
    if (options.embed != embed_policy::automatic && options.embed != asked) {
      return cli::usage_error{embed + " contradicts is_host of --rdzv-conf; leave one out"};
    }
    options.embed = asked;
  }
  if (options.standalone) {
    if (options.embed == embed_policy::never && !embed.empty()) {
      return cli::usage_error{
          embed +
          " needs --rdzv-endpoint=HOST[:PORT]: without one, the daemon of this run "
          "is in this process"};
    }
    options.embed = embed_policy::always;
  }
  return {};
}

void settle_master_address(options_draft& draft) {
  if (draft.master_address.empty()) return;
  launch_options& options = draft.options;
  if (options.settings.nodes_max == 1) {
    if (options.local_address.empty()) options.local_address = draft.master_address;
    return;
  }
  options.notes.push_back(draft.words_of("master-addr") +
                          " is ignored: workers are told the address of the node with group rank "
                          "0; --local-addr says which one that is");
}

// Scripts often use one variable for both; torchrun's c10d ignores --master-port.
void settle_master_port(options_draft& draft) {
  launch_options& options = draft.options;
  const bool is_daemons = !options.standalone && options.master_port == options.endpoint.port;
  if (!is_daemons) return;
  options.master_port = 0;
  options.notes.push_back(draft.words_of("master-port") + " is ignored: the rendezvous daemon of " +
                          draft.words_of("rdzv-endpoint") +
                          " has that port, and workers get a new one each round");
}

// The port of the first "tcp://HOST:PORT" in `text`; empty if there is none in digits.
std::optional<std::uint16_t> tcp_url_port(std::string_view text) {
  const std::size_t scheme = text.find("tcp://");
  if (scheme == std::string_view::npos) return {};
  std::string_view rest = text.substr(scheme + 6);
  const std::size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  const std::size_t colon = rest.find(':', bracket);
  if (bracket == std::string_view::npos || colon == std::string_view::npos) return {};
  rest = rest.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [stopped, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  if (error != std::errc() || stopped == rest.data()) return {};
  return port;
}

// Up to PyTorch 2.13, TORCHELASTIC_USE_AGENT_STORE makes all ranks clients of any tcp:// address;
// since 2.14 only of MASTER_ADDR:MASTER_PORT.
bool knows_its_launchers_store(std::string_view torch) {
  const std::size_t point = torch.find('.');
  if (point == std::string_view::npos) return false;
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  const char* const end = torch.data() + torch.size();
  std::from_chars(torch.data(), end, major);
  std::from_chars(torch.data() + point + 1, end, minor);
  return major > 2 || (major == 2 && minor >= 14);
}

// For scripts that serve a store of their own: an older PyTorch only does so if it is not told
// about ours.
void settle_store(options_draft& draft, const environment_map& environment,
                  const std::function<std::string()>& installed_torch) {
  launch_options& options = draft.options;
  if (!draft.words_of("store").empty()) return;
  const std::string* const unshared =
      find_variable(environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  if (unshared != nullptr && *unshared == "1") {
    options.settings.store = store_mode::worker;
    options.notes.push_back(
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: rank 0 serves the store (as with --store=worker)");
    return;
  }
  for (const std::string& argument : options.arguments) {
    const std::optional<std::uint16_t> port = tcp_url_port(argument);
    if (!port || *port == 0 || *port == options.master_port) continue;
    const bool asks = installed_torch && !options.no_python;
    if (asks && knows_its_launchers_store(installed_torch())) return;
    options.settings.store = store_mode::worker;
    options.notes.push_back("the script is told " + argument +
                            ", so rank 0 serves the store (as with --store=worker; --store=agent "
                            "if that is not meant for torch)");
    return;
  }
}

void settle_gpus(options_draft& draft) {
  launch_options& options = draft.options;
  if (options.gpus.empty() || !draft.words_of("nproc-per-node").empty()) return;
  options.workers.number = static_cast<std::uint32_t>(options.gpus.size());
}

// Overrides --rdzv-conf, and may contradict other timers there.
cli::checked settle_restart_window(options_draft& draft) {
  if (!draft.restart_window) return std::nullopt;
  timers& timing = draft.options.settings.timing;
  timing.restart_window = *draft.restart_window;
  const std::string text = early_refill(timing);
  if (text.empty()) return std::nullopt;
  return cli::wrong(draft.words_of("restart-window"), text);
}

// Reads torchrun's variable for --log-line-prefix-template, and notes options without effect.
void settle_output(options_draft& draft, const environment_map& environment) {
  output_options& output = draft.options.output;
  const std::string* const prefix =
      find_variable(environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (output.prefix_template.empty() && prefix != nullptr) output.prefix_template = *prefix;
  const auto note = [&](std::string_view option, std::string_view text) {
    draft.options.notes.push_back(draft.words_of(option) + std::string(text));
  };
  for (const std::string_view option : {"redirects", "tee"}) {
    const stream_choice& choice = option == "tee" ? output.tee : output.redirects;
    if (output.is_off() && !choice.none()) note(option, " is ignored with --log-dir=/dev/null");
  }
  if (!output.tee.none()) return;
  if (!output.stdout_filters.empty()) {
    note("duplicate-stdout-filters", " is ignored: it is for streams of --tee");
  }
  if (!output.stderr_filters.empty()) {
    note("duplicate-stderr-filters", " is ignored: it is for streams of --tee");
  }
}

// LOGLEVEL is torchrun's variable; our option and PET_LOG_LEVEL win. Other programs read it too, so
// an unknown word is not an error.
void apply_log_level_variable(options_draft& draft, const environment_map& environment) {
  const std::string* const word = find_variable(environment, "LOGLEVEL");
  if (word == nullptr) return;
  if (const auto level = cli::read_log_level("LOGLEVEL", *word)) draft.options.log.least = *level;
}

// Decides where the nodes meet, and who runs the daemon.
cli::checked settle_meeting(options_draft& draft) {
  if (const cli::checked wrong = settle_static(draft)) return wrong;
  if (draft.options.is_static) return {};
  if (const cli::checked wrong = settle_endpoint(draft)) return wrong;
  if (const cli::checked wrong = settle_embedding(draft)) return wrong;
  settle_master_address(draft);
  settle_master_port(draft);
  return {};
}

}  // namespace

parse_outcome parse_options(const std::vector<std::string>& command_line,
                            const environment_map& environment,
                            const std::function<std::string()>& installed_torch,
                            const std::function<hosts::placement_outcome()>& find_placement) {
  auto line = cli::split_command_line(launcher_command(), command_line, environment);
  if (!line) return line.error();
  options_draft draft;
  apply_log_level_variable(draft, environment);
  for (const cli::given_option& option : line->options) {
    if (const cli::checked wrong = apply_option(draft, option)) return *wrong;
  }
  if (!draft.answer.empty()) return cli::show_text{std::move(draft.answer)};
  draft.options.program = std::move(line->program);
  draft.options.arguments = std::move(line->arguments);

  if (const cli::checked wrong = check_program(draft)) return *wrong;
  if (const cli::checked wrong = check_standalone(draft)) return *wrong;
  // The engine's words count as typed, so they come before anything that depends on them.
  if (const cli::checked wrong = settle_placement(draft, find_placement)) return *wrong;
  if (const cli::checked wrong = settle_meeting(draft)) return *wrong;
  if (const cli::checked wrong = settle_shutdown_timeout(draft, environment)) return *wrong;
  if (draft.failure_grace) draft.options.settings.timing.failure_grace = *draft.failure_grace;
  settle_gpus(draft);
  if (const cli::checked wrong = settle_restart_window(draft)) return *wrong;
  settle_output(draft, environment);
  settle_store(draft, environment, installed_torch);
  // Rank 0 cannot open the daemon's port.
  const bool is_workers = draft.options.settings.store == store_mode::worker;
  if (draft.options.is_static && is_workers) draft.options.master_port = 0;
  return std::move(draft.options);
}

std::optional<launch_options> meeting_of_refused(const std::vector<std::string>& command_line,
                                                 const environment_map& environment) {
  options_draft draft;
  for (const cli::given_option& option :
       cli::readable_options(launcher_command(), command_line, environment))
    apply_option(draft, option);  // whatever cannot be applied is left out
  if (settle_meeting(draft)) return std::nullopt;
  // The other nodes have these settings as well.
  settle_shutdown_timeout(draft, environment);
  if (draft.failure_grace) draft.options.settings.timing.failure_grace = *draft.failure_grace;
  settle_restart_window(draft);
  return std::move(draft.options);
}

}  // namespace ddprun::launcher
