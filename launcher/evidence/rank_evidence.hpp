// What is known of this node's ranks at one moment of a round, and the sentence about it.
#pragma once

#include "launcher/evidence/flight_record.hpp"
#include "launcher/evidence/kernel_wait.hpp"
#include "launcher/evidence/progress_files.hpp"
#include "launcher/evidence/python_stack.hpp"
#include "launcher/evidence/ras_status.hpp"
#include "rendezvous/core/messages/stall.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher::evidence {

struct rank_evidence {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  pid_t pid = -1;
  std::string end;           // how it ended, as a sentence; empty: it lived, and was looked at
  char state = '?';          // as /proc/PID/stat has it: R, S, D, T ...; '?': it is gone
  std::string wait_channel;  // the kernel's function in which it sleeps; empty: none, or not told
  std::string kernel_stack;  // where this user may read it
  // In state D, in one wait from before it was asked until after: it cannot have answered itself,
  // but another thread of it may have.
  std::optional<kernel_wait> waits;
  std::string awaited_file;       // that it waits for there; empty: not told
  std::optional<said_step> step;  // the newest that it has said, where it says them
  bool is_asked = false;          // for its stacks: it could have answered
  std::string stacks;  // of all its threads, as faulthandler has it; empty: it did not answer
  std::vector<stack_frame> stack;  // of its main thread
  std::string gpu_wait;            // the call in which that may wait for its GPU; empty: none
  std::optional<flight_record> record{};  // of its collectives, where its PyTorch has told
  std::int64_t looked_at_ns = 0;          // when, since 1970
  std::string output_tail;                // the last 4 KiB of its streams
  std::string errors_tail;
};

struct node_evidence {
  std::vector<rank_evidence> ranks;  // sorted by rank
  std::string memory;                // counters of memory cgroups: "FILE\nlines"
  std::vector<std::string> kernel;   // lines of the kernel's log about GPUs and the OOM killer
  std::string nccl;  // the status of NCCL's RAS server, up to 64 KiB; empty: it has not answered
  std::string nccl_counts{};  // launched collectives in all ranks of the job (ras_status.hpp)
  std::optional<ras_lag> nccl_lag{};  // the rank that has launched fewer than all others
  bool has_nccl_lags = false;         // some rank has launched fewer than another
  std::string nccl_behind{};          // the same as a sentence, from the whole status
};

// Where two looks at a rank find the same it has not moved, as far as a stack tells. One that waits
// in a collective may look round there. One in state D stands only where both looks find the same
// wait.
bool stands_as_before(const rank_evidence& before, const rank_evidence& now);

// True in pause(), sigsuspend() and sigtimedwait(). Any signal ends these calls, so the script
// would mistake ours for the one that it waits for.
bool waits_for_signal(const rank_evidence& one);

// True if its main thread is in a call that ends when other ranks come or its GPU is done.
bool waits_in_call(const rank_evidence& one);

// Those that live, one by one. One that waits for its GPU waits for other ranks where NCCL says
// that some rank has launched fewer collectives than another; else it may wait for what its GPU
// computes, and nobody can tell. If all wait, and one of them has launched fewer than all others,
// or has not called a collective in which others wait (collective_rules.hpp), it is elsewhere. If
// such a one is elsewhere anyway, those that have called all collectives are not waited for.
std::vector<stalled_ranks> stalled_ranks_of(const node_evidence& seen);

// "rank 3 stood in forward (train.py:88) while 7 ranks waited in all_reduce (train.py:41)"; those
// that wait for others come last, and then what NCCL and PyTorch say of their collectives. Empty:
// there is not one stack.
std::string sentence_of(const node_evidence& seen);

// The last part of it: ranks have called different collectives. Empty: not that we see.
std::string mismatch_sentence(const node_evidence& seen);

}  // namespace ddprun::launcher::evidence
