#include "launcher/evidence/rank_evidence.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// Stopped by a signal or by a debugger.
bool is_stopped(const rank_evidence& one) {
  return one.state == 'T' || one.state == 't';
}

std::string words_of(const rank_evidence& one, const standing& where, bool waits_for_gpu) {
  if (is_stopped(one)) return "was stopped (state T)";
  if (waits_for_gpu)
    return "waited for the GPU in " + one.gpu_wait +
           (where.place.empty() ? "" : ", " + where.place);
  if (!where.waits_in.empty()) {
    return "waited in " + where.waits_in + (where.place.empty() ? "" : ", " + where.place);
  }
  if (!where.place.empty()) return "stood in " + where.place;
  std::string text = "did not say where it stood (state ";
  text += one.state;
  if (!one.wait_channel.empty()) text += ", " + one.wait_channel;
  return text + ")";
}

stall_kind kind_of(const rank_evidence& one, const standing& where, bool waits_for_gpu,
                   bool is_anybody_behind) {
  if (is_stopped(one)) return stall_kind::stopped;
  if (!where.waits_in.empty()) return stall_kind::waits;
  if (waits_for_gpu) return is_anybody_behind ? stall_kind::waits : stall_kind::unseen;
  const bool is_seen = !where.place.empty() || waits_for_signal(one);
  return is_seen ? stall_kind::elsewhere : stall_kind::unseen;
}

}  // namespace

bool stands_as_before(const rank_evidence& before, const rank_evidence& now) {
  const auto is_at_rest = [](char state) { return state == 'S' || state == 'R'; };
  // A spinning wait changes between running and sleeping from one look to the next.
  const bool is_alike =
      before.state == now.state || (is_at_rest(before.state) && is_at_rest(now.state));
  if (before.pid != now.pid || !is_alike) return false;
  const standing where = standing_of(now.stack);
  // Only the innermost frame of the user matters in a collective: see the header.
  if (!where.waits_in.empty()) return standing_of(before.stack) == where;
  return before.stack == now.stack;
}

bool waits_for_signal(const rank_evidence& one) {
  return one.wait_channel.find("pause") != std::string::npos ||
         one.wait_channel.find("sigsuspend") != std::string::npos ||
         one.wait_channel.find("sigtimedwait") != std::string::npos;
}

bool waits_in_call(const rank_evidence& one) {
  return !one.gpu_wait.empty() || !standing_of(one.stack).waits_in.empty();
}

std::vector<stalled_ranks> stalled_ranks_of(const node_evidence& seen) {
  std::map<std::uint32_t, pid_t> pids;
  std::vector<stalled_ranks> ranks;
  for (const rank_evidence& one : seen.ranks) {
    if (one.state == '?' || one.state == 'Z') continue;
    const standing where = standing_of(one.stack);
    const bool waits_for_gpu =
        where.waits_in.empty() && !one.gpu_wait.empty() && !seen.nccl_counts.empty();
    std::string words = words_of(one, where, waits_for_gpu);
    if (one.step)
      words +=
          (one.step->is_done ? " after step " : " in step ") + std::to_string(one.step->number);
    pids[one.rank] = one.pid;
    ranks.push_back({one.rank, one.rank, kind_of(one, where, waits_for_gpu, seen.has_nccl_lags),
                     std::move(words)});
  }
  const bool do_all_wait = std::all_of(ranks.begin(), ranks.end(), [](const stalled_ranks& one) {
    return one.kind == stall_kind::waits;
  });
  for (stalled_ranks& one : ranks) {
    if (!do_all_wait || !seen.nccl_lag || seen.nccl_lag->pid != pids[one.first]) continue;
    one.kind = stall_kind::elsewhere;
    one.words += ", behind the others in NCCL (" + seen.nccl_lag->words + ")";
  }
  return ranks;
}

std::string sentence_of(const node_evidence& seen) {
  std::string sentence = ddprun::sentence_of(stalled_ranks_of(seen));
  if (!seen.nccl_behind.empty()) sentence += (sentence.empty() ? "" : "; ") + seen.nccl_behind;
  return sentence;
}

}  // namespace ddprun::launcher::evidence
