// Asks the worker servers of PyTorch for what the flight recorders of this node's ranks have noted.
//
// The server is PyTorch's (torch/csrc/distributed/c10d/control_plane/WorkerServer.cpp, 2.11 to
// 2.15): HTTP on a Unix socket, answered by a thread of its own, also while Python's main thread
// holds the interpreter. Backends have recorders of their own: "POST /handler/fr_trace_json" is
// Gloo's, the same with "?backend=nccl2" (2.15) and "POST /handler/dump_nccl_trace_json" are
// NCCL's. What comes is a worker's, which may have put anything there: see flight_record.hpp for
// its reader.
//
// Thread rule: any thread, not the main one; takes as long as the slowest, `limit` at most. All are
// asked at once, and each answer is read as it comes. Bounded: what is longer than record_bytes_max
// counts as no answer.
#pragma once

#include "launcher/evidence/flight_record.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun::launcher::evidence {

// What each of its threads is called. They use the processor only to answer.
inline constexpr std::string_view server_thread_name = "pt_workerserver";

inline constexpr std::size_t record_bytes_max = 4 * 1024 * 1024;

// By process, of those that have given one. `sockets`: paths by process. `asks_nccl`: groups of
// NCCL are asked for, too; their names have the backend's before them ("nccl2 0").
std::map<pid_t, flight_record> ask_worker_servers(const std::map<pid_t, std::string>& sockets,
                                                  bool asks_nccl, duration limit);

}  // namespace ddprun::launcher::evidence
