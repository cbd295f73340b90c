// What each worker of a round gets: its environment and its command.
//
// The environment is the agent's own, with every variable that torchrun sets (RANK to
// TORCHELASTIC_USE_AGENT_STORE) and DDPRUN_* for ours. The command is Python with the script, a
// module, or a plain program, with the placeholders of the arguments filled in.
//
// Thread rule: pure functions; nothing is looked up, opened or picked here.
#pragma once

#include "launcher/cli/options.hpp"
#include "launcher/nccl/round_ids.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

// One node's part in one round.
struct worker_round {
  instance_id instance = 0;
  round_number round = 0;
  ddprun::assignment assignment;
  std::uint32_t restarts_used = 0;
  std::uint32_t worker_count = 1;  // on this node
  std::string node;                // this node's label
  std::string run_id;              // never empty
  std::string mark;                // of this agent process: in the environment of its workers
  std::string vault;               // the folder in memory for what they save; empty: none
  std::string gloo_interface;      // for Gloo where the person has chosen none; empty: none
  // Where workers may write how far they are, by local rank; none: nobody asks.
  std::vector<std::string> progress_files;
  // Where a worker says that it can live on from round to round; empty: none may.
  std::string survivors;
  // Where torch's @record writes, by local rank; none: nowhere.
  std::vector<std::string> error_files;
  nccl_round_ids nccl;  // that the leader has given
};

// Whatever a worker starts inherits it: the guardian finds by it what has left the worker's group.
inline constexpr std::string_view session_variable = "DDPRUN_SESSION";

inline constexpr std::string_view gloo_interface_variable = "GLOO_SOCKET_IFNAME";

// The environment of the worker with that local rank: `inherited`, and over it what the round says.
// OMP_NUM_THREADS is 1 when it is not set and the node has several workers.
environment_map worker_environment(const launch_options& options, const worker_round& round,
                                   std::uint32_t local_rank, const environment_map& inherited);

// The line for the person when `worker_environment` chooses OMP_NUM_THREADS; empty when it does
// not.
std::string thread_count_note(std::uint32_t worker_count, const environment_map& inherited);

// argv of the worker with that local rank. `free_port` is what {free_port} stands for; pick a new
// one for each worker where `wants_free_port`.
std::vector<std::string> worker_command_line(const launch_options& options,
                                             const worker_round& round, std::uint32_t local_rank,
                                             std::uint16_t free_port = 0);

// What begins each of its lines on our own output. Empty in a world of one, unless the person has
// chosen it.
std::string worker_line_prefix(const launch_options& options, const worker_round& round,
                               std::uint32_t local_rank, const std::string& host_name);

// The address where a worker says that it can live on; empty: none may.
std::string survivors_address(const launch_options& options, const std::string& mark);

bool wants_free_port(const launch_options& options);

// "tcp://10.0.0.1:29500", "tcp://[fe80::1]:29500".
std::string master_url(const assignment& assigned);

}  // namespace ddprun::launcher
