// The launch options are what the user asked for: the command line and its PET_* defaults, read and
// checked before anything starts.
//
// `parse_options` is pure: it opens no file, resolves no name and counts no processors. What needs
// the machine is in check_files.hpp and worker_count.hpp.
//
// Errors: one usage_error line, in the order in which the options were written.
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

// The requested number of workers of this node; `count_workers` computes the number.
struct worker_count_request {
  worker_count_kind kind = worker_count_kind::number;
  std::uint32_t number = 1;  // with worker_count_kind::number; at least 1
};

// Whether this agent may hold the rendezvous daemon (--embed-daemon, is_host of --rdzv-conf).
enum class embed_policy {
  automatic,  // if the endpoint is this host and nobody listens there yet
  always,     // it must; a port in use is an error
  never,      // the daemon runs elsewhere, or something else starts it
};

// What is replaced in the script's arguments; see launcher/cli/placeholders.hpp.
enum class placeholder_mode { on, torchrun };

// Whether the node that leads a round creates NCCL's unique ids for its workers.
enum class nccl_id_mode {
  automatic,  // if a GPU is visible and ddprun-nccl-id works; otherwise none
  on,         // a round without them fails
  off,
};

// On which processors a worker may run; see launcher/node/numa_binding.hpp.
enum class numa_mode { off, node, socket, exclusive, core_complex };

// When ranks that do not move count as hung; see launcher/evidence/hang_rules.hpp.
struct hang_options {
  bool is_named = true;
  std::optional<duration> limit;  // after which the rank is killed as well; empty: never
};

struct launch_options {
  run_settings settings;
  worker_count_request workers;

  std::string run_id;              // empty: standalone without --rdzv-id; the caller draws one
  cli::endpoint_address endpoint;  // standalone: 127.0.0.1 with port 0
  // Other ports where the daemon may be; see placement::more_meeting_ports.
  std::vector<std::uint16_t> more_ports;
  bool standalone = false;  // one node: the daemon runs in this process, on a port of its own
  embed_policy embed = embed_policy::automatic;
  // torchrun's static rendezvous: a fixed number of nodes, each with its rank, which meet at
  // MASTER_ADDR:MASTER_PORT. The agent of the node with rank 0 runs the daemon there.
  bool is_static = false;

  std::string node_id;                     // empty: the host name and a suffix
  std::optional<std::uint32_t> node_rank;  // see rank_policy
  std::string local_address;               // published for this node; empty: detected
  std::uint16_t master_port = 0;           // for the workers' store; 0: a new one each round
  std::vector<wanted_network> networks;    // workers use the first that this node has; empty: any
  std::string role = "default";
  nccl_id_mode nccl_ids = nccl_id_mode::automatic;

  // Each worker has LOCAL_RANK 0 and sees one GPU, that of its local rank.
  bool virtual_local_rank = false;
  std::vector<std::uint32_t> gpus;  // for workers, as positions among the visible ones; empty: all
  numa_mode numa = numa_mode::off;
  // How long processes that a successful worker leaves in its group, or as orphans, may run on;
  // empty: for ever.
  std::optional<duration> children_grace = std::chrono::seconds(30);

  bool module = false;             // `program` is a Python module
  bool no_python = false;          // `program` is executed directly
  bool run_path = false;           // `program` is run by runpy in Python; overrides both
  bool mpi_env = false;            // workers get OMPI_COMM_WORLD_RANK and similar variables
  bool pass_local_rank = false;    // --local-rank=N becomes the first argument
  std::string python = "python3";  // see python_program in check_files.hpp
  std::string program;             // script, module or program
  std::vector<std::string> arguments;
  placeholder_mode placeholders = placeholder_mode::on;

  // After a failure elsewhere, busy workers get more time to end than stop_grace.
  bool spares_busy_workers = true;
  bool allows_other_users = false;  // of this host, to connect to our ports

  // The engine starts each agent of the job once and ends them together, so a daemon that runs in
  // one of them has no successor.
  bool starts_once = false;

  std::uint16_t health_port = 0;  // where probes are answered; 0: nowhere
  // The exit code of a node that leaves in order when told to, while the others go on.
  int drain_exit_code = 0;

  output_options output;
  cli::log_options log;
  std::string on_event;  // a command that gets the events; empty: none

  duration evidence_limit = std::chrono::seconds(2);  // for one collection; 0: none
  bool asks_collectives = false;  // of PyTorch; see launcher/evidence/worker_server.hpp
  hang_options hang;

  // The number of spare processes that have already made the script's imports; empty: as many as
  // workers.
  std::optional<std::uint32_t> warm_spares = 0;

  // After a failure elsewhere, a worker that can leave its round survives.
  bool keeps_survivors = false;

  vault_options vault;

  // Before the first round (launcher/hosts/doctor/start_check.hpp), and after a failed one.
  bool checks_node = true;
  health_options health;

  // What the user should know about how the options were read; one line each, for standard error.
  std::vector<std::string> notes;
};

using parse_outcome = std::variant<launch_options, cli::show_text, cli::usage_error>;

// Reads the command line without the program's name. If the right options depend on the workers'
// PyTorch, `installed_torch` is called, which returns its version ("" if there is none). If they do
// not say where the nodes meet, `find_placement` is called (see launcher/hosts/engines.hpp).
parse_outcome parse_options(const std::vector<std::string>& command_line,
                            const environment_map& environment,
                            const std::function<std::string()>& installed_torch = {},
                            const std::function<hosts::placement_outcome()>& find_placement = {});

// For a command line that parse_options refuses: where the other nodes of its run meet, who this
// node is to them, and what else can be read. Empty if the line does not say that, or only an
// engine could; `standalone` if there are no other nodes.
std::optional<launch_options> meeting_of_refused(const std::vector<std::string>& command_line,
                                                 const environment_map& environment);

}  // namespace ddprun::launcher
