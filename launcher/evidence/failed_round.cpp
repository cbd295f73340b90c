#include "launcher/evidence/failed_round.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// The messages of PyTorch and NCCL about a failed CUDA call.
bool speaks_of_gpu(const cause& why) {
  constexpr std::array<std::string_view, 5> words = {
      "CUDA error", "CUDA driver error", "unhandled cuda error", "CUBLAS_STATUS_", "CUDNN_STATUS_"};
  return std::any_of(words.begin(), words.end(), [&why](std::string_view word) {
    return why.tail.find(word) != std::string::npos;
  });
}

// A bad index in the script: the GPU is as it was.
bool speaks_of_own_fault(const cause& why) {
  return why.tail.find("device-side assert triggered") != std::string::npos;
}

}  // namespace

failed_round::failed_round(evidence_writer& writer, kernel_news kernel)
    : writer_(writer), kernel_(std::move(kernel)) {}

void failed_round::begin() {
  kernel_.begin_round();
  ended_.clear();
  has_spoken_of_gpu_ = false;
}

void failed_round::note_end(const worker_end& end, bool was_stopped) {
  rank_evidence one;
  one.rank = end.rank;
  one.local_rank = end.local_rank;
  one.pid = end.pid;
  one.end = was_stopped ? "it was stopped" : "it ended: " + end.status().describe();
  one.output_tail = end.output_tail;
  one.errors_tail = end.tail;
  ended_.push_back(std::move(one));
}

void failed_round::add_to(node_evidence& seen) {
  for (const rank_evidence& ended : ended_) {
    const auto same =
        std::find_if(seen.ranks.begin(), seen.ranks.end(),
                     [&ended](const rank_evidence& one) { return one.rank == ended.rank; });
    if (same == seen.ranks.end()) {
      seen.ranks.push_back(ended);
      continue;
    }
    // The rank was asked before it ended: keep its stacks, and add how it ended.
    same->end = ended.end;
    same->output_tail = ended.output_tail;
    same->errors_tail = ended.errors_tail;
  }
  std::sort(seen.ranks.begin(), seen.ranks.end(),
            [](const auto& one, const auto& other) { return one.rank < other.rank; });
  seen.kernel = kernel_.lines();
}

void failed_round::take(round_number round, const std::string& folder,
                        std::vector<rank_evidence> living) {
  const bool is_taken = writer_.newest().round == round || (facts_ && facts_->round == round);
  if (is_taken) return;
  round_facts facts;
  facts.round = round;
  facts.folder = folder;
  facts.seen.ranks = std::move(living);
  for (rank_evidence& one : facts.seen.ranks)
    one.end = "it had not ended when the round was stopped";
  add_to(facts.seen);
  facts_ = std::move(facts);
  if (is_failed(round)) keep();
}

void failed_round::keep() {
  round_facts facts = *std::exchange(facts_, std::nullopt);
  // The ranks were asked meanwhile, and the answer, which is saved already, has these facts, too.
  if (writer_.newest().round == facts.round) return;
  writer_.keep({facts.round, "", facts.folder}, std::move(facts.seen), note_level::debug,
               "evidence of the failure of round " + std::to_string(facts.round));
}

void failed_round::judge(round_number round, bool is_failure) {
  if (!facts_ || facts_->round != round) return;
  if (is_failure) return keep();
  facts_.reset();
}

void failed_round::name_gpu_fault(cause& why) {
  const bool has_spoken = !why.is_secondary && speaks_of_gpu(why);
  has_spoken_of_gpu_ = has_spoken_of_gpu_ || (has_spoken && !speaks_of_own_fault(why));
  const std::string fault = kernel_.fault_of(static_cast<pid_t>(why.process), has_spoken);
  if (fault.empty()) return;
  why.text += (why.text.empty() ? "" : "; ") + ("the kernel's log: " + fault);
}

}  // namespace ddprun::launcher::evidence
