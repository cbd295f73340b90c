// The rows of the option table for several hosts from one command line, over ssh. They are read
// where the hosts are started (launcher/hosts/ssh/plan.hpp), before anything else; the agents
// started there never see them.
#pragma once

#include "launcher/cli/option_table.hpp"

#include <array>

namespace ddprun::launcher {

inline cli::checked leave_to_head(options_draft&, const cli::given_option&) {
  return {};
}

constexpr cli::option<options_draft> host_row(std::string_view name, std::string_view value,
                                              std::string_view help, char letter = 0) {
  return {{.name = name,
           .value = value,
           .heading = "Hosts",
           .help = help,
           .letter = letter,
           .in_environment = false},
          leave_to_head};
}

inline constexpr std::array host_rows = {
    host_row("hosts", "HOST[:WORKERS],...",
             "start an agent on each of these hosts over ssh, and show its\n"
             "output here: a:4,b:4; IPv6 as [ADDRESS]:4 (one worker)",
             'H'),
    host_row("hostfile", "FILE",
             "the same from a file, one host per line: \"a slots=4\" or \"a:4\""),
    host_row("host-discovery", "SCRIPT",
             "the same from a program that prints them and is run every second:\n"
             "hosts come and go between --nnodes MIN:MAX"),
    host_row("host-discovery-script", "SCRIPT", ""),  // horovodrun's name for it
    host_row("num-proc", "WORKERS",
             "number of workers in all (as many as the hosts have); also -np"),
    host_row("min-np", "WORKERS", ""),
    host_row("max-np", "WORKERS", ""),
    host_row("include", "HOST[:GPU,...]@...",
             "use only these hosts, or only these GPUs of a host: a@b:0,2"),
    host_row("exclude", "HOST[:GPU,...]@...", "use all hosts or GPUs except these"),
    host_row("ssh-port", "PORT", "the port of sshd on the hosts (ssh's default)", 'p'),
    host_row("ssh-user", "NAME", "the user on the hosts (ssh's default)"),
    host_row("ssh-args", "WORDS", "options for ssh, such as '-i key -J gateway'"),
    host_row("export", "NAME[=VALUE]",
             "set a variable for the workers on all hosts; PATH, PYTHONPATH,\n"
             "NCCL_* and other usual ones are passed on without it",
             'x'),
    host_row("remote-ddprun", "PATH",
             "ddprun on the hosts (the same path as here, else from PATH there,\n"
             "else a copy of this one)"),
    host_row("start-timeout", "SECONDS",
             "how long the agent of each host may take to start (60); not the\n"
             "timer start_timeout below, which is about workers"),
};

}  // namespace ddprun::launcher
