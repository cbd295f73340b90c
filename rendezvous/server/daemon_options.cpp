#include "rendezvous/server/daemon_options.hpp"

#include "rendezvous/base/version.hpp"
#include "rendezvous/cli/option.hpp"
#include "rendezvous/core/messages/settings_table.hpp"
#include "rendezvous/net/resolve.hpp"

#include <array>
#include <tuple>

namespace ddprun::server {
namespace {

struct options_draft {
  daemon_options options;
  std::string answer;  // to --help or --version
};

cli::log_options& log_options_of(options_draft& draft) {
  return draft.options.log;
}

cli::checked apply_bind(options_draft& draft, const cli::given_option& option) {
  if (!net::numeric_address(option.value)) return cli::wrong(option, "write an address in digits");
  draft.options.bind_address = option.value;
  return {};
}

cli::checked apply_port(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.port,
                   cli::read_port(option.given, option.value, "0 for a free one"));
}

cli::checked apply_port_file(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "the name of the file is empty");
  draft.options.port_file = option.value;
  return {};
}

cli::checked apply_color(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.color, cli::read_color_mode(option.given, option.value));
}

cli::checked apply_recovery_window(options_draft& draft, const cli::given_option& option) {
  return cli::keep(draft.options.recovery_window,
                   cli::read_seconds(option.given, option.value, true));
}

cli::checked apply_state_folder(options_draft& draft, const cli::given_option& option) {
  if (option.value.empty()) return cli::wrong(option, "write a folder, or none to persist nothing");
  draft.options.state_folder = option.value;
  return {};
}

cli::checked apply_store_memory(options_draft& draft, const cli::given_option& option) {
  constexpr std::uint32_t mib_max = 1U << 20U;
  const auto mib = cli::read_count(option.given, option.value, "MiB", 1, mib_max);
  if (!mib) return mib.error();
  draft.options.store_bytes_max = std::size_t{*mib} << 20U;
  return {};
}

cli::checked apply_other_users(options_draft& draft, const cli::given_option&) {
  draft.options.allows_other_users = true;
  return {};
}

// Declared here, because the table names it and its text is made from the table.
cli::checked show_help(options_draft& draft, const cli::given_option& option);

cli::checked show_version(options_draft& draft, const cli::given_option&) {
  draft.answer = "ddprun-rendezvous " + std::string(version) + "\n";
  return {};
}

using row = cli::option<options_draft>;

constexpr std::array own_options = {
    row{{"bind", "ADDRESS", "", "listen on this numeric address only (all, IPv6 and IPv4)"},
        apply_bind},
    row{{"port", "PORT", "", "listen on this port; 0 picks a free one and prints it ({})",
         cli::option_owner::ddprun, cli::option_kind::value, 0,
         [] { return std::to_string(daemon_options().port); }},
        apply_port},
    row{{"port-file", "FILE", "", "write the port here, once it is open"}, apply_port_file},
    row{{"color", "auto | always | never", "",
         "colour warnings and errors; auto: on a terminal, unless\n"
         "NO_COLOR is set or TERM=dumb (auto)"},
        apply_color},
    row{{"recovery-window", "SECONDS", "",
         "how long to wait for the agents of an earlier daemon at this endpoint\n"
         "before a run that was active goes on; without a state folder, before\n"
         "any run does; 0: there was no earlier daemon ({})",
         cli::option_owner::ddprun, cli::option_kind::value, 0,
         [] { return seconds_text(daemon_options().recovery_window); }},
        apply_recovery_window},
    row{{"state-dir", "DIR | none", "",
         "where to persist what must outlive all agents: which runs are\n"
         "active, how often they were restarted, how they ended (HOST-PORT in\n"
         "$STATE_DIRECTORY, else ddprun/HOST-PORT in $XDG_STATE_HOME or\n"
         "~/.local/state; none with --port=0)"},
        apply_state_folder},
    row{{"store-memory", "MIB", "",
         "memory for TCPStore clients, a quarter of it for requests and replies\n"
         "in flight; a client that needs more is disconnected, and no other\n"
         "client is affected ({})",
         cli::option_owner::ddprun, cli::option_kind::value, 0,
         [] { return std::to_string(daemon_options().store_bytes_max >> 20U); }},
        apply_store_memory},
    row{{"allow-other-users", "", "",
         "accept agents of other users of this host; without it only root's,\n"
         "those of the user that runs this, and those of other hosts",
         cli::option_owner::ddprun, cli::option_kind::flag},
        apply_other_users},
    row{{"help", "", "", "show this text", cli::option_owner::ddprun, cli::option_kind::question,
         'h'},
        show_help},
    row{{"version", "", "", "show the version", cli::option_owner::ddprun,
         cli::option_kind::question},
        show_version},
};

constexpr std::array table =
    std::apply([](const auto&... rows) { return std::array{rows...}; },
               std::tuple_cat(cli::log_rows<options_draft>(""), own_options));

const cli::command& daemon_command() {
  static const cli::command daemon = {"ddprun-rendezvous", "", false, cli::specs_of(table)};
  return daemon;
}

cli::checked show_help(options_draft& draft, const cli::given_option&) {
  draft.answer = R"(usage: ddprun-rendezvous [OPTIONS]

Lets the nodes of a job find each other: start it once, then start ddprun on every node with
--rdzv-endpoint pointing here. It serves agents, TCPStore clients and HTTP (GET /healthz, GET
/api/v1/runs) on one port. If it is killed and started again, it continues: its agents report what
they run, and a small database has what they cannot know.

)" + help_under(daemon_command(), "");
  return {};
}

}  // namespace

daemon_outcome parse_daemon_options(const std::vector<std::string>& arguments) {
  const auto line = cli::split_command_line(daemon_command(), arguments, {});
  if (!line) return line.error();
  options_draft draft;
  for (const cli::given_option& option : line->options) {
    if (const cli::checked bad = cli::apply_option(table, draft, option)) return *bad;
  }
  if (!draft.answer.empty()) return cli::show_text{std::move(draft.answer)};
  return std::move(draft.options);
}

}  // namespace ddprun::server
