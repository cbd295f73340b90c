// What is known of a round that fails without asking any of its ranks: how they ended and what they
// said last, what the kernel's log says, and the counts of memory cgroups.
//
// It is taken beside the stop, and written on another thread: no restart waits for it.
#include "launcher/agent/agent.hpp"
#include "launcher/report/round_box.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

// PyTorch's and NCCL's words of a call of CUDA that has failed.
bool speaks_of_gpu(const cause& why) {
  constexpr std::array<std::string_view, 5> words = {
      "CUDA error", "CUDA driver error", "unhandled cuda error", "CUBLAS_STATUS_", "CUDNN_STATUS_"};
  return std::any_of(words.begin(), words.end(), [&why](std::string_view word) {
    return why.tail.find(word) != std::string::npos;
  });
}

}  // namespace

// What the kernel has said until now is of no round that fails later.
void agent::begin_facts() {
  kernel_.begin_round();
  oom_kills_.notice(std::chrono::steady_clock::now());
  ended_ranks_.clear();
}

bool agent::keeps_evidence() const {
  return options_.evidence_limit > duration::zero() && !evidence_folder().empty();
}

std::vector<std::string> agent::memory_files() const {
  std::vector<std::string> files = own_oom_counters();
  const std::string folder = reaper_.cgroup_path();
  if (!folder.empty()) files.push_back(folder + "/memory.events");
  return files;
}

void agent::note_end(round_number round, const worker_end& end) {
  const bool was_stopped = stopped_round_ == round;
  if (!was_stopped && !end.status.success()) failed_round_ = round;
  if (!keeps_evidence()) return;
  evidence::rank_evidence one;
  one.rank = end.rank;
  one.local_rank = end.local_rank;
  one.pid = end.pid;
  one.end = was_stopped ? "it was stopped" : "it ended: " + end.status.describe();
  one.output_tail = end.output_tail;
  one.errors_tail = end.tail;
  ended_ranks_.push_back(std::move(one));
}

// To what the ranks that live were asked for, if they were.
void agent::add_facts(evidence::node_evidence& seen) {
  for (const evidence::rank_evidence& ended : ended_ranks_) {
    const auto same = std::find_if(
        seen.ranks.begin(), seen.ranks.end(),
        [&ended](const evidence::rank_evidence& one) { return one.rank == ended.rank; });
    if (same == seen.ranks.end()) {
      seen.ranks.push_back(ended);
      continue;
    }
    same->end = ended.end;
    same->output_tail = ended.output_tail;
    same->errors_tail = ended.errors_tail;
  }
  std::sort(seen.ranks.begin(), seen.ranks.end(),
            [](const auto& one, const auto& other) { return one.rank < other.rank; });
  seen.kernel = kernel_.lines();
}

// Of a round that ends, once; and not before its ranks have said where they stand, if they were
// asked.
void agent::take_facts(round_number round) {
  const bool is_taken = evidence_.round == round || (facts_ && facts_->round == round);
  if (!keeps_evidence() || is_taken || gathers_for_ == round) return;
  round_facts facts;
  facts.round = round;
  facts.folder = evidence_folder();
  for (evidence::watched_rank& living : living_ranks()) {
    worker_group::words words = workers_->words_of(living.known.rank);
    living.known.end = "it had not ended when the round was stopped";
    living.known.output_tail = std::move(words.output);
    living.known.errors_tail = std::move(words.errors);
    facts.seen.ranks.push_back(std::move(living.known));
  }
  add_facts(facts.seen);
  facts_ = std::move(facts);
  if (failed_round_ == round) keep_facts();
}

void agent::keep_facts() {
  round_facts facts = *std::exchange(facts_, std::nullopt);
  if (evidence_.round == facts.round) return;
  evidence_ = {facts.round, "", facts.folder};
  write_evidence(std::move(facts.seen), note_level::debug,
                 "what is known of the failure of round " + std::to_string(facts.round));
}

// Where no worker of this node has failed, only the report says why the round was ended.
void agent::judge_facts(const round_report& report) {
  if (!facts_ || facts_->round != report.round) return;
  if (is_failure(report)) return keep_facts();
  facts_.reset();
}

// The kernel knows better than the program why a call of CUDA has failed.
void agent::name_gpu_fault(const core::worker_ended& event, cause& why) {
  const bool is_by_stop = stopped_round_ == event.round && !why.was_failing;
  if (event.success || is_by_stop) return;
  const std::string fault =
      kernel_.fault_of(static_cast<pid_t>(why.process), !why.is_secondary && speaks_of_gpu(why));
  if (fault.empty()) return;
  why.text += (why.text.empty() ? "" : "; ") + ("the kernel's log: " + fault);
}

}  // namespace ddprun::launcher
