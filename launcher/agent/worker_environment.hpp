// What each worker of a round gets: its environment and its command.
//
// The environment is the agent's own, with every variable that torchrun sets (RANK to
// TORCHELASTIC_USE_AGENT_STORE) and our DDPRUN_*. The command is Python with a script or module, or
// a plain program, with the placeholders in its arguments filled in.
//
// Thread rule: pure functions; nothing is looked up, opened or chosen here.
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

// The assignment of this node in a round, and what else its workers need.
struct worker_round {
  instance_id instance = 0;
  round_number round = 0;
  ddprun::assignment assignment;
  std::uint32_t restarts_used = 0;
  std::uint32_t worker_count = 1;  // on this node
  std::string node;                // this node's label
  std::string run_id;              // never empty
  std::string mark;                // of this agent process, in the environment of its workers
  std::string vault;               // the workers' folder in memory; empty: none
  std::string gloo_interface;      // for Gloo, if the user has chosen none; empty: none
  // The files for workers' progress, by local rank; none: progress is not read.
  std::vector<std::string> progress_files;
  // Where workers read why they are stopped (stop_file.hpp); empty: nowhere.
  std::string stop_file;
  // The address where workers report that they can survive; empty: none may.
  std::string survivors;
  // The files of torch's @record, by local rank; none: not wanted.
  std::vector<std::string> error_files;
  nccl_round_ids nccl;  // from the leader
};

// All processes that a worker starts inherit it: by it the guardian finds those that have left the
// worker's group.
inline constexpr std::string_view session_variable = "DDPRUN_SESSION";

inline constexpr std::string_view gloo_interface_variable = "GLOO_SOCKET_IFNAME";

// The environment of the worker with that local rank: `inherited`, overridden by the round's
// values. OMP_NUM_THREADS is 1 if it is not set and the node has several workers.
environment_map worker_environment(const launch_options& options, const worker_round& round,
                                   std::uint32_t local_rank, const environment_map& inherited);

// The message if `worker_environment` chooses OMP_NUM_THREADS; else empty.
std::string thread_count_note(std::uint32_t worker_count, const environment_map& inherited);

// argv of the worker with that local rank. `free_port` replaces {free_port}; if `wants_free_port`,
// choose a new one for each worker.
std::vector<std::string> worker_command_line(const launch_options& options,
                                             const worker_round& round, std::uint32_t local_rank,
                                             std::uint16_t free_port = 0);

// The prefix of its lines on our own output. Empty in a world of one, unless the user has chosen
// one.
std::string worker_line_prefix(const launch_options& options, const worker_round& round,
                               std::uint32_t local_rank, const std::string& host_name);

// The address where workers report that they can survive; empty: none may.
std::string survivors_address(const launch_options& options, const std::string& mark);

bool wants_free_port(const launch_options& options);

// "tcp://10.0.0.1:29500", "tcp://[fe80::1]:29500".
std::string master_url(const assignment& assigned);

}  // namespace ddprun::launcher
