// A head plan is what `ddprun -H ...` is asked to do, checked before it contacts any host: which
// hosts, over which ssh, and the command line of each agent.
//
// An agent's line is the one that the user typed, without the options for the head, and with what
// the head knows: the number of nodes, where they meet, and this node's name, place in the list and
// workers.
//
// Thread rule: plain values and pure functions, except that `read_file` reads a file.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/hosts/ssh/host_list.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::ssh {

struct ssh_options {
  std::string port;                // empty: ssh's default
  std::string user;                // empty: ssh's default
  std::vector<std::string> words;  // --ssh-args
};

struct head_plan {
  std::vector<host> hosts;  // empty with a discovery
  // --host-discovery: the script that prints the hosts; empty: they are known.
  std::string discovery;
  std::string discovery_given;
  ssh_options ssh;
  environment_map variables;   // for every agent
  std::string remote_program;  // --remote-ddprun; empty: searched for
  duration start_timeout = std::chrono::seconds(60);
  bool has_common_workers = false;   // --nproc-per-node
  bool has_endpoint = false;         // the user's, in launch.endpoint
  bool has_run_id = false;           // the user's, in launch.run_id
  launch_options launch;             // as every agent reads them, except for what differs by host
  std::vector<std::string> options;  // for every agent
  std::vector<std::string> once;     // for one agent only: what is wanted once per run
  std::vector<std::string> script;   // the program and its arguments
};

using file_reader_function = std::function<cli::parsed<std::string>(const std::string& path)>;

// None: the line names no other hosts, or its parser refuses it anyway.
cli::parsed<std::optional<head_plan>> plan_head(const std::vector<std::string>& words,
                                                const environment_map& environment,
                                                const file_reader_function& read_file);

// What depends on how and where the head runs.
struct agent_place {
  std::string endpoint;  // HOST:PORT as that host reaches it
  std::string run_id;
  bool is_at_head = false;  // the head has the daemon: no agent opens one
  bool has_color = false;
  bool reports = false;  // for the whole run: one agent does
};

// The command line of the agent on a host.
std::vector<std::string> agent_words(const head_plan& plan, std::size_t host,
                                     const agent_place& place);

// The command line of ssh, its name included. `connect_seconds` limits one try.
std::vector<std::string> ssh_words(const head_plan& plan, std::size_t host,
                                   const std::string& command, long connect_seconds);

// Splits the text of --ssh-args at blanks, with quotes and backslashes as in a shell.
cli::parsed<std::vector<std::string>> split_words(std::string_view given, std::string_view text);

}  // namespace ddprun::launcher::ssh
