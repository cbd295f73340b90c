// The launch options are what a person asked for: the command line and its PET_* defaults, read and
// checked, before anything starts.
//
// `parse_options` is pure: it opens no file, looks no name up and counts no processor. What needs
// the machine is apart, in check_files.hpp and worker_count.hpp.
//
// Errors: one usage_error line, in the order in which the person wrote the options.
#pragma once

#include "launcher/cli/health_options.hpp"
#include "launcher/cli/output_options.hpp"
#include "launcher/cli/vault_options.hpp"
#include "launcher/cli/wanted_networks.hpp"
#include "launcher/hosts/placement.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/cli/command_line.hpp"
#include "rendezvous/cli/log_options.hpp"
#include "rendezvous/cli/usage_error.hpp"
#include "rendezvous/cli/values.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/settings.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::launcher {

inline constexpr std::uint16_t default_master_port = 29500;  // torchrun's

enum class worker_count_kind { number, automatic, cpu, gpu, xpu };

// How many workers this node starts, as asked for; `count_workers` makes a number of it.
struct worker_count_request {
  worker_count_kind kind = worker_count_kind::number;
  std::uint32_t number = 1;  // with worker_count_kind::number; at least 1
};

// Whether this agent may hold the rendezvous daemon (--embed-daemon, is_host of --rdzv-conf).
enum class embed_policy {
  automatic,  // when the endpoint is this host and nobody listens there yet
  always,     // it must; a port in use is an error
  never,      // the daemon is somewhere else, or is started by somebody else
};

// What is replaced in the script's arguments, see launcher/cli/placeholders.hpp.
enum class placeholder_mode { on, torchrun };

// Whether the node that leads a round makes NCCL's unique ids for its workers.
enum class nccl_id_mode {
  automatic,  // where a GPU is visible, and ddprun-nccl-id is there; else, or if it fails, none
  on,         // a round without them fails
  off,
};

// On which processors a worker may run, see launcher/node/numa_binding.hpp.
enum class numa_mode { off, node, socket, exclusive, core_complex };

// When ranks that do not move hang, see launcher/evidence/hang_rules.hpp.
struct hang_options {
  bool is_named = true;
  std::optional<duration> limit;  // after which the rank is ended, too; none: it never is
};

struct launch_options {
  run_settings settings;
  worker_count_request workers;

  std::string run_id;              // empty: standalone without --rdzv-id, the caller draws one
  cli::endpoint_address endpoint;  // standalone: 127.0.0.1 with port 0
  // Where else the daemon may be, see placement::more_meeting_ports.
  std::vector<std::uint16_t> more_ports;
  bool standalone = false;  // one node: the daemon lives in this process, on a port of its own
  embed_policy embed = embed_policy::automatic;
  // torchrun's static rendezvous: a fixed number of nodes, each with its rank, which meet at
  // MASTER_ADDR:MASTER_PORT. The daemon is there, in the agent of the node with rank 0.
  bool is_static = false;

  std::string node_id;                     // empty: the host name and a suffix
  std::optional<std::uint32_t> node_rank;  // see rank_policy
  std::string local_address;               // published for this node; empty: found out
  std::uint16_t master_port = 0;           // of the workers' store; 0: a new one each round
  std::vector<wanted_network> networks;    // workers use the first that this node has; empty: any
  std::string role = "default";
  nccl_id_mode nccl_ids = nccl_id_mode::automatic;

  // Each worker has LOCAL_RANK 0 and sees one GPU: that of its local rank.
  bool virtual_local_rank = false;
  std::vector<std::uint32_t> gpus;  // for workers, counted within the visible ones; empty: all
  numa_mode numa = numa_mode::off;
  // What a worker that ended well leaves in its group, or as orphans, may run on for so long; none:
  // for good.
  std::optional<duration> children_grace = std::chrono::seconds(30);

  bool module = false;             // `program` is a Python module
  bool no_python = false;          // `program` is executed as it is
  bool run_path = false;           // `program` is run by runpy in a Python; wins over both
  bool mpi_env = false;            // workers see OMPI_COMM_WORLD_RANK and its like
  bool pass_local_rank = false;    // --local-rank=N is the first argument
  std::string python = "python3";  // which one, see python_program in check_files.hpp
  std::string program;             // script, module or program
  std::vector<std::string> arguments;
  placeholder_mode placeholders = placeholder_mode::on;

  // After a failure elsewhere workers that are at something have more than stop_grace to end.
  bool spares_busy_workers = true;
  bool allows_other_users = false;  // of this host, to speak to what listens here

  // What has started this agent starts each of the job's once, and ends them together: where the
  // daemon lives in one of them, it has no successor.
  bool starts_once = false;

  std::uint16_t health_port = 0;  // where a probe is answered; 0: nowhere
  // Of a node that was told to go and left in order, while the others go on.
  int drain_exit_code = 0;

  output_options output;
  cli::log_options log;
  std::string on_event;  // a command that is told what happens; empty: none

  duration evidence_limit = std::chrono::seconds(2);  // of one gathering; 0: none
  hang_options hang;

  // Processes that wait with the script's imports made, for a restart; none: as many as workers.
  std::optional<std::uint32_t> warm_spares = 0;

  // After a failure elsewhere a worker that can leave its round lives on.
  bool keeps_survivors = false;

  vault_options vault;

  // Before the first round (launcher/hosts/doctor/start_check.hpp), and after one that failed.
  bool checks_node = true;
  health_options health;

  // What the person should know of how the options were read; a line each, for standard error.
  std::vector<std::string> notes;
};

using parse_outcome = std::variant<launch_options, cli::show_text, cli::usage_error>;

// Reads the command line without the program's own name. Where the right options depend on the
// workers' PyTorch `installed_torch` is called, and returns its version ("" when there is none);
// where they leave out where the nodes meet, `find_placement` (see launcher/hosts/engines.hpp).
parse_outcome parse_options(const std::vector<std::string>& command_line,
                            const environment_map& environment,
                            const std::function<std::string()>& installed_torch = {},
                            const std::function<hosts::placement_outcome()>& find_placement = {});

// Of a command line that parse_options refuses: where the others of its run meet, who this node is
// to them, and what can be read besides. Nothing where the line does not say that, or an engine
// would have to; `standalone` where there are no others.
std::optional<launch_options> meeting_of_refused(const std::vector<std::string>& command_line,
                                                 const environment_map& environment);

}  // namespace ddprun::launcher
