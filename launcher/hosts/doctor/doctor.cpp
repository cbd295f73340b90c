#include "launcher/hosts/doctor/doctor.hpp"

#include "launcher/hosts/doctor/examine_cluster.hpp"
#include "launcher/hosts/doctor/gpus.hpp"
#include "launcher/hosts/doctor/limits.hpp"
#include "launcher/hosts/doctor/search_path.hpp"
#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/cli/option.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

namespace ddprun::launcher::doctor {
namespace {

// Every node reads all cards and beats, so the work grows with the square of their number.
constexpr std::uint32_t nodes_max = 256;

struct options_draft {
  std::optional<cli::endpoint_address> endpoint;
  cluster_wishes cluster;
  std::string nodes_given;  // as typed; empty: not given
  bool is_json = false;
  std::string answer;  // to --help
};

cli::checked apply_endpoint(options_draft& draft, const cli::given_option& option) {
  const auto read = cli::read_endpoint(option.given, option.value);
  if (!read) return read.error();
  draft.endpoint = *read;
  draft.cluster.meeting.endpoint = *read;
  return {};
}

cli::checked apply_nnodes(options_draft& draft, const cli::given_option& option) {
  draft.nodes_given = option.given;
  const auto nodes = cli::read_node_range(option.given, option.value, nodes_max);
  if (!nodes)
    return cli::usage_error{nodes.error().text +
                            "; they all meet at one endpoint: examine more nodes in groups"};
  draft.cluster.meeting.nodes = *nodes;
  return {};
}

cli::checked apply_rdzv_id(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.cluster.meeting.run_id,
                   cli::read_name(option.given, option.value, "run id"));
}

cli::checked apply_wait(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.cluster.meeting.wait,
                   cli::read_seconds(option.given, option.value, false));
}

cli::checked apply_networks(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.cluster.networks, read_networks(option.given, option.value));
}

cli::checked apply_shared(options_draft& draft, const cli::given_option& option) {
  if (!option.value.starts_with('/')) return cli::wrong(option, "write a folder's whole path");
  draft.cluster.folder = option.value;
  return {};
}

cli::checked apply_bandwidth(options_draft& draft, const cli::given_option&) {
  draft.cluster.wants_bandwidth = true;
  return {};
}

cli::checked apply_json(options_draft& draft, const cli::given_option&) {
  draft.is_json = true;
  return {};
}

cli::checked show_help(options_draft& draft, const cli::given_option& option);

using row = cli::option<options_draft>;

constexpr std::array table = {
    row{{"rdzv-endpoint", "HOST[:PORT]", "",
         "also check whether this node reaches the job's endpoint"},
        apply_endpoint},
    row{{"nnodes", "N | MIN:MAX", "",
         "number of nodes that type this line and examine each other; with\n"
         "MIN:MAX they wait for MAX, and MIN are enough (1)"},
        apply_nnodes},
    row{{"rdzv-id", "ID", "", "distinguishes two doctors at one endpoint (none)"}, apply_rdzv_id},
    row{{"wait", "SECONDS", "", "how long to wait for the others (60)"}, apply_wait},
    row{{"network", "CIDR | INTERFACE,...", "",
         "the network between the nodes, as with ddprun (that of the\n"
         "endpoint)"},
        apply_networks},
    row{{"shared", "FOLDER", "",
         "also check whether all nodes share this folder, and how it caches"},
        apply_shared},
    row{{"bandwidth", "", "",
         "also measure how fast data goes between each pair of nodes, 20 s in\n"
         "all",
         cli::option_owner::ddprun, cli::option_kind::flag},
        apply_bandwidth},
    row{{"json", "", "", "print one JSON object in place of lines", cli::option_owner::ddprun,
         cli::option_kind::flag},
        apply_json},
    row{{"help", "", "", "show this text", cli::option_owner::ddprun, cli::option_kind::question,
         'h'},
        show_help},
};

}  // namespace

const cli::command& doctor_command() {
  static const cli::command made = {"ddprun doctor", "", true, cli::specs_of(table)};
  return made;
}

namespace {

cli::checked show_help(options_draft& draft, const cli::given_option&) {
  draft.answer = R"(usage: ddprun doctor [OPTIONS]

Looks for what would make a job fail on this node: names, interfaces, ports, processors, memory,
shared memory, disks, limits, the clock, GPUs and who uses them, Python, PyTorch and its CUDA.
Each line says ok, warning or error, what was seen, and what to do. Nothing is changed.

With --nnodes N and --rdzv-endpoint, typed on N nodes at the same time, the nodes meet there, as
those of a job would, and examine each other: addresses, names, random ports in both directions,
firewalls, packet sizes, round trips, clocks, versions. Each node shows the same result. Up to 128
nodes try all pairs; of more, each tries those 1, 2, 4, 8, ... places further on; a line says so.

With -H node1,node2 (or --hostfile FILE, and the other ssh options of `ddprun -H`) it is started on
these hosts from here, and the common result is shown once.

)" + help_under(doctor_command(), "") +
                 R"(
Exit code: 0; 1 when something is an error; 2 for a mistake on the command line.
)";
  return {};
}

cli::parsed<options_draft> read_options(const std::vector<std::string>& words) {
  const auto line = cli::split_command_line(doctor_command(), words, {});
  if (!line) return line.error();
  options_draft draft;
  for (const cli::given_option& option : line->options) {
    if (const cli::checked bad = cli::apply_option(table, draft, option)) return *bad;
  }
  if (!line->program.empty() && draft.answer.empty())
    return cli::usage_error{"'" + line->program + "': doctor takes options only; see --help"};
  if (draft.cluster.meeting.nodes.max > 1 && !draft.endpoint && draft.answer.empty())
    return cli::usage_error{draft.nodes_given +
                            " needs --rdzv-endpoint HOST: where the nodes meet"};
  return draft;
}

own_facts examine_node(const options_draft& options, const environment_map& environment) {
  const char* const root = "/";
  own_facts own;
  const std::vector<std::string> silent = find_silent_folders(environment);
  const environment_map answering = without_folders(environment, silent);
  const auto add = [&](findings more) {
    own.found.insert(own.found.end(), std::make_move_iterator(more.begin()),
                     std::make_move_iterator(more.end()));
  };
  const std::uint16_t port = options.endpoint ? options.endpoint->port : cli::default_endpoint_port;
  own.network = read_network(root);
  add(judge_network(own.network, environment, port));
  if (options.endpoint) {
    own.endpoint = read_endpoint(root, *options.endpoint);
    add({judge_endpoint(own.endpoint)});
  }
  add(judge_limits(read_limits(root, environment, patience)));
  add(judge_gpus(read_gpus(root, environment)));
  add(judge_silent_folders(silent));
  own.python = read_python(answering);
  add(judge_python(own.python));
  return own;
}

void show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// Shows what is known of this node before waiting for the others.
int examine_with_others(const options_draft& options, const own_facts& own,
                        const environment_map& environment) {
  if (!options.is_json) {
    const meeting_options& meeting = options.cluster.meeting;
    show(fmt::format("\n{} nodes meet at {}; waiting up to {}\n", meeting.nodes.max,
                     cli::to_text(meeting.endpoint), ddprun::to_text(meeting.wait)));
  }
  cluster_wishes wishes = options.cluster;
  if (!options.is_json) wishes.say = [](const std::string& line) { show(line + "\n"); };
  const cluster_report all = examine_cluster(wishes, own, environment);
  show(options.is_json ? to_json(own.found, own.network.host_name, &all) : "\n" + to_text(all));
  return std::max(exit_code_of(own.found), exit_code_of(all.found));
}

}  // namespace

int examine(const std::vector<std::string>& words, const environment_map& environment) {
  const auto options = read_options(words);
  if (!options) {
    std::fprintf(stderr, "ddprun doctor: %s\n", options.error().text.c_str());
    return usage_exit_code;
  }
  if (!options->answer.empty()) {
    std::fputs(options->answer.c_str(), stdout);
    return 0;
  }
  const own_facts own = examine_node(*options, environment);
  const bool has_others = options->cluster.meeting.nodes.max > 1;
  if (!options->is_json) show(to_text(own.found));
  if (has_others) return examine_with_others(*options, own, environment);
  if (options->is_json) show(to_json(own.found, own.network.host_name));
  return exit_code_of(own.found);
}

}  // namespace ddprun::launcher::doctor
