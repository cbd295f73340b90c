// Holds what is known of a failed round without asking its ranks: how they ended, what they printed
// last, and what the kernel's log says.
//
// It is saved during the stop, by another thread, so no restart waits for it.
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
  // Tests pass their own `kernel`.
  explicit failed_round(evidence_writer& writer, kernel_news kernel = kernel_news());

  // A round begins. Earlier lines of the kernel's log belong to no later failure.
  void begin();
  void note_end(const worker_end& end, bool was_stopped);
  // A worker of this node has failed by itself in that round.
  void has_failed(round_number round) { failed_round_ = round; }
  bool is_failed(round_number round) const { return failed_round_ == round; }

  // Adds this to what the live ranks have answered, if they were asked.
  void add_to(node_evidence& seen);
  // Takes the facts of a round that ends, once, with the ranks that are still alive. They are saved
  // as soon as the round is known to have failed.
  void take(round_number round, const std::string& folder, std::vector<rank_evidence> living);
  // The round's report is here. If no worker of this node has failed, only the report tells whether
  // the round was a failure.
  void judge(round_number round, bool is_failure);

  // The kernel knows better than the program why a CUDA call has failed.
  void name_gpu_fault(cause& why);
  // A worker of this round has failed with an error of CUDA, or the kernel has told of a fault of a
  // GPU: the GPU may be unfit for another round.
  bool suspects_gpu() { return has_spoken_of_gpu_ || kernel_.has_fault(); }

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
  bool has_spoken_of_gpu_ = false;
  kernel_news kernel_;
};

}  // namespace ddprun::launcher::evidence
