#include "launcher/nccl/nccl_id_options.hpp"

#include "launcher/nccl/id_count.hpp"
#include "rendezvous/base/version.hpp"
#include "rendezvous/cli/values.hpp"

#include <array>
#include <utility>

namespace ddprun::launcher {
namespace {

struct options_draft {
  nccl_id_options options;
  std::string answer;  // of --help or --version
};

cli::checked apply_library(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "the path is missing");
  draft.options.library = option.value;
  return {};
}

cli::checked apply_python(options_draft& draft, const cli::given_option&) {
  draft.options.asks_python = true;
  return {};
}

cli::checked apply_program(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "the program is missing");
  draft.options.program = option.value;
  return {};
}

cli::checked show_help(options_draft& draft, const cli::given_option& option);

cli::checked show_version(options_draft& draft, const cli::given_option&) {
  draft.answer = "ddprun-nccl-id " + std::string(version) + "\n";
  return {};
}

using row = cli::option<options_draft>;

constexpr std::array table = {
    row{{"library", "PATH", "", "load this libnccl"}, apply_library},
    row{{"python", "", "",
         "load the libnccl of the packages of $PYTHON_EXEC, $VIRTUAL_ENV or\n"
         "python3, else the system's",
         cli::option_owner::ddprun, cli::option_kind::flag},
        apply_python},
    row{{"program", "PROGRAM", "",
         "load the libnccl that PROGRAM is linked with, or, if it is a Python,\n"
         "that of its packages; else the system's, else that of --python"},
        apply_program},
    row{{"help", "", "", "show this text", cli::option_owner::ddprun, cli::option_kind::question,
         'h'},
        show_help},
    row{{"version", "", "", "show the version", cli::option_owner::ddprun,
         cli::option_kind::question},
        show_version},
};

const cli::command& nccl_id_command() {
  static const cli::command made = {"ddprun-nccl-id", "", true, cli::specs_of(table)};
  return made;
}

cli::checked show_help(options_draft& draft, const cli::given_option&) {
  draft.answer = R"(usage: ddprun-nccl-id [OPTIONS] [COUNT]

Makes COUNT unique ids of NCCL, prints them, and stays until its standard input ends: the ranks of
the communicators meet in this process. Without COUNT it reads the number from standard input. It is
started by ddprun --nccl-ids. $DDPRUN_NCCL_LIBRARY overrides all options that choose a libnccl.

)" + help_under(nccl_id_command(), "");
  return {};
}

}  // namespace

cli::parsed<std::uint32_t> read_id_count(const std::string& text) {
  return cli::read_count("'" + text + "'", text, "ids", 1, nccl_ids_max_made);
}

nccl_id_outcome parse_nccl_id_options(const std::vector<std::string>& words,
                                      const environment_map& environment) {
  const auto line = cli::split_command_line(nccl_id_command(), words, {});
  if (!line) return line.error();
  options_draft draft;
  for (const cli::given_option& option : line->options) {
    if (const cli::checked bad = cli::apply_option(table, draft, option)) return *bad;
  }
  if (!draft.answer.empty()) return cli::show_text{std::move(draft.answer)};
  if (!line->program.empty()) {
    if (const auto bad = cli::keep(draft.options.count, read_id_count(line->program))) return *bad;
  }
  if (!line->arguments.empty())
    return cli::usage_error{"'" + line->arguments.front() + "': one number of ids is all it takes"};
  if (const std::string* const named = find_variable(environment, "DDPRUN_NCCL_LIBRARY")) {
    draft.options.library = *named;
    draft.options.asks_python = false;
    draft.options.program.clear();
  }
  return std::move(draft.options);
}

}  // namespace ddprun::launcher
