// Gathers what is known of this node's ranks, before they are ended: their Python stacks (of those
// that do not give them by py-spy, where that is installed), what the kernel says of them, what
// they printed last, and what the system says of memory. Of the kernel's log see kernel_news.hpp.
//
// Thread rule: `gather` runs on a thread of its own and takes as long as the slowest rank, `limit`
// at most; nothing else in it waits, but for the kernel, where a process is stuck in it (see
// process/background_task.hpp). Bounded in size: a rank gives at most some 80 KiB.
#pragma once

#include "launcher/evidence/rank_evidence.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

struct rank_question {
  rank_evidence known;  // who it is, and what it printed
  unique_fd process;    // a pidfd, opened while the process was ours
};

struct question {
  std::vector<rank_question> ranks;
  std::vector<std::string> memory_files;  // of cgroups
  environment_map environment;            // for py-spy, and NCCL_RAS_ADDR
  std::chrono::milliseconds limit{};
};

// A pidfd; none where the process is gone.
unique_fd open_process(pid_t pid);

// Of memory cgroups: "FILE\nlines" of each that can be read. It may wait where memory is short.
std::string memory_counts(const std::vector<std::string>& files);

node_evidence gather(const std::shared_ptr<question>& asked);

}  // namespace ddprun::launcher::evidence
