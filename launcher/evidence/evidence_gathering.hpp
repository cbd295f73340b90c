// Gathers what is known of this node's ranks, before they are ended: their Python stacks (of those
// that do not give them by py-spy, where that is installed), what PyTorch has noted of their
// collectives, what the kernel says of them, what they printed last, and what the system says of
// memory. Of the kernel's log see kernel_news.hpp.
//
// Thread rule: `gather` runs on a thread of its own and takes as long as the slowest rank, `limit`
// at most. Only the kernel can hold it up for longer, if a process is stuck there (see
// process/background_task.hpp). Sizes are bounded: a rank yields at most some 80 KiB.
#pragma once

#include "launcher/evidence/rank_evidence.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ddprun::launcher::evidence {

struct rank_question {
  rank_evidence known;  // its identity and its output
  unique_fd process;    // a pidfd, opened while the PID was our worker's
};

struct question {
  std::vector<rank_question> ranks;
  std::vector<std::string> memory_files;  // of cgroups
  environment_map environment;            // for py-spy, and NCCL_RAS_ADDR
  std::string server_folder{};            // in which their PyTorch listens; empty: nowhere
  std::chrono::milliseconds limit{};
  // Tests have a clock of their own.
  std::function<time_point()> now = [] { return std::chrono::steady_clock::now(); };
  std::function<void(std::chrono::milliseconds)> sleep = [](std::chrono::milliseconds pause) {
    std::this_thread::sleep_for(pause);
  };
};

// Returns a pidfd; none: the process is gone.
unique_fd open_process(pid_t pid);

// Returns "FILE\nlines" for each readable file of the memory cgroups. It may block if memory is
// short.
std::string memory_counts(const std::vector<std::string>& files);

node_evidence gather(const std::shared_ptr<question>& asked);

}  // namespace ddprun::launcher::evidence
