// What is known of a round that fails without asking any of its ranks: how they ended and what they
// said last, and what the kernel's log says.
//
// It is taken beside the stop, and written on another thread: no restart waits for it.
//
// Thread rule: the main thread; nothing here waits. Ownership: the writer must outlive it.
#pragma once

#include "launcher/evidence/evidence_writer.hpp"
#include "launcher/evidence/kernel_news.hpp"
#include "launcher/evidence/rank_evidence.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

class failed_round {
 public:
  // `kernel`: others than the system's are for tests.
  explicit failed_round(evidence_writer& writer, kernel_news kernel = kernel_news());

  // A round begins. What the kernel has said until now is of no round that fails later.
  void begin();
  void note_end(const worker_end& end, bool was_stopped);
  // A worker of this node has failed in it by itself.
  void has_failed(round_number round) { failed_round_ = round; }
  bool is_failed(round_number round) const { return failed_round_ == round; }

  // Adds to what the ranks that live were asked for, if they were.
  void add_to(node_evidence& seen);
  // Of a round that ends, once, with the ranks that still live; it is kept as soon as the round is
  // known to have failed.
  void take(round_number round, const std::string& folder, std::vector<rank_evidence> living);
  // What the report of the round says: where no worker of this node has failed, only that tells why
  // the round was ended.
  void judge(round_number round, bool is_failure);

  // The kernel knows better than the program why a call of CUDA has failed.
  void name_gpu_fault(cause& why);

 private:
  void keep();

  struct round_facts {
    round_number round = 0;
    std::string folder;
    node_evidence seen;
  };
  evidence_writer& writer_;
  std::optional<round_facts> facts_;  // of a round that has been ended; not known why
  std::vector<rank_evidence> ended_;  // of the round that is here
  round_number failed_round_ = 0;     // the newest in which a worker here failed
  kernel_news kernel_;
};

}  // namespace ddprun::launcher::evidence
