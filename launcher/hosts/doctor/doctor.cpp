#include "launcher/hosts/doctor/doctor.hpp"

#include "launcher/hosts/doctor/gpus.hpp"
#include "launcher/hosts/doctor/limits.hpp"
#include "launcher/hosts/doctor/network.hpp"
#include "launcher/hosts/doctor/python.hpp"
#include "launcher/hosts/doctor/report.hpp"
#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/net/host_name.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <utility>

namespace ddprun::launcher::doctor {
namespace {

struct options_draft {
  std::optional<cli::endpoint_address> endpoint;
  bool is_json = false;
  std::string answer;  // to a question
};

cli::checked apply_endpoint(options_draft& draft, const cli::given_option& option) {
  const auto read = cli::read_endpoint(option.given, option.value);
  if (!read) return read.error();
  draft.endpoint = *read;
  return {};
}

cli::checked apply_json(options_draft& draft, const cli::given_option&) {
  draft.is_json = true;
  return {};
}

cli::checked show_help(options_draft& draft, const cli::given_option& option);

using row = cli::option<options_draft>;

constexpr std::array table = {
    row{{"rdzv-endpoint", "HOST[:PORT]", "", "whether this node reaches the job's endpoint, too"},
        apply_endpoint},
    row{{"json", "", "", "one object in place of lines", cli::option_owner::ddprun,
         cli::option_kind::flag},
        apply_json},
    row{{"help", "", "", "this text", cli::option_owner::ddprun, cli::option_kind::question, 'h'},
        show_help},
};

const cli::command& doctor_command() {
  static const cli::command made = {"ddprun doctor", "", true, cli::specs_of(table)};
  return made;
}

cli::checked show_help(options_draft& draft, const cli::given_option&) {
  draft.answer = R"(usage: ddprun doctor [OPTIONS]

Looks for what would make a job fail on this node: names, interfaces, ports, processors, memory,
shared memory, disks, limits, the clock, GPUs and who holds them, Python, PyTorch and its CUDA.
Each line says ok, warning or error, what was seen, and what to do. Nothing is changed.

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
  return draft;
}

findings examine_node(const options_draft& options, const environment_map& environment) {
  const char* const root = "/";
  findings found;
  const auto add = [&](findings more) {
    found.insert(found.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  };
  const std::uint16_t port = options.endpoint ? options.endpoint->port : cli::default_endpoint_port;
  add(judge_network(read_network(root), environment, port));
  if (options.endpoint) found.push_back(judge_endpoint(read_endpoint(*options.endpoint)));
  add(judge_limits(read_limits(root, environment)));
  add(judge_gpus(read_gpus(root, environment)));
  add(judge_python(read_python(environment)));
  return found;
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
  const findings found = examine_node(*options, environment);
  std::fputs((options->is_json ? to_json(found, net::full_host_name()) : to_text(found)).c_str(),
             stdout);
  return exit_code_of(found);
}

}  // namespace ddprun::launcher::doctor
