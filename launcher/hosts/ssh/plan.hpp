// The plan of a head is what `ddprun -H ...` has been asked to do, checked before any host is
// spoken to: which hosts, by which ssh, and which command line each one's agent gets.
//
// An agent's line is the one that was typed, without what is for the head, and with what the head
// knows: how many nodes there are, where they meet, this node's name, its place in the list and its
// workers.
//
// Thread rule: plain values and pure functions, but that `read_file` reads.
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
  std::string port;                // empty: ssh's own
  std::string user;                // the same
  std::vector<std::string> words;  // --ssh-args
};

struct head_plan {
  std::vector<host> hosts;  // of a discovery: none yet
  std::string discovery;    // --host-discovery: what prints them; empty: they are known
  std::string discovery_given;
  ssh_options ssh;
  environment_map variables;   // for every agent
  std::string remote_program;  // --remote-ddprun; empty: found
  duration start_timeout = std::chrono::seconds(60);
  bool has_common_workers = false;   // --nproc-per-node
  bool has_endpoint = false;         // the person's; launch.endpoint
  bool has_run_id = false;           // the same: launch.run_id
  launch_options launch;             // as every agent reads them, but for what differs by host
  std::vector<std::string> options;  // for every agent
  std::vector<std::string> once;     // for one of them alone: what is wanted once in a run
  std::vector<std::string> script;   // and its arguments
};

using file_reader_function = std::function<cli::parsed<std::string>(const std::string& path)>;

// None: the line asks for no other hosts, or is to be refused without a look at them.
cli::parsed<std::optional<head_plan>> plan_head(const std::vector<std::string>& words,
                                                const environment_map& environment,
                                                const file_reader_function& read_file);

// What depends on where and as what the head runs.
struct agent_place {
  std::string endpoint;  // HOST:PORT as this host reaches it
  std::string run_id;
  bool is_at_head = false;  // the daemon is in the head: no agent is to open one
  bool has_color = false;
  bool reports = false;  // for the whole run, as one of them has to
};

// The command line of the agent on that host.
std::vector<std::string> agent_words(const head_plan& plan, std::size_t host,
                                     const agent_place& place);

// ssh's own command line, with its name. `connect_seconds`: of one try.
std::vector<std::string> ssh_words(const head_plan& plan, std::size_t host,
                                   const std::string& command, long connect_seconds);

// The words of --ssh-args: blanks between them, quotes and backslashes as in a shell.
cli::parsed<std::vector<std::string>> split_words(std::string_view given, std::string_view text);

}  // namespace ddprun::launcher::ssh
