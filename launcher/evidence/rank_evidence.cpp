#include "launcher/evidence/rank_evidence.hpp"

#include "launcher/evidence/collective_rules.hpp"
#include "rendezvous/base/utf8.hpp"

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

bool has_ended(const rank_evidence& one) {
  return one.state == '?' || one.state == 'Z';
}

std::vector<ranked_record> records_of(const node_evidence& seen) {
  std::vector<ranked_record> records;
  for (const rank_evidence& one : seen.ranks) {
    if (one.record && !has_ended(one)) records.push_back({one.rank, &*one.record});
  }
  return records;
}

// "all_reduce #5"; "backward for all_reduce #5", where the script has not called it by its name;
// without a number where it is not known.
std::string call_of(const rank_evidence& one, const std::string& waits_in) {
  const collective* const call = one.record ? pending_collective(*one.record) : nullptr;
  if (call == nullptr) return waits_in;
  // "_all_gather_base" is what all_gather_into_tensor calls.
  std::string_view name = call->name;
  if (name.starts_with('_')) name.remove_prefix(1);
  if (name.ends_with("_base")) name.remove_suffix(std::string_view("_base").size());
  const bool is_named = waits_in.find(name) != std::string::npos;
  return waits_in + (is_named ? " " : " for " + call->name + " ") + number_of(*one.record, *call);
}

// The end of a path is what tells it from others.
constexpr std::size_t path_bytes_max = 80;

std::string short_path(const std::string& path) {
  if (path.size() <= path_bytes_max) return path;
  return "..." + std::string(last_of(path, path_bytes_max));
}

std::string wait_in_kernel(const rank_evidence& one, const standing& where) {
  std::string text = "waited in the kernel";
  if (!one.awaited_file.empty()) text += " for " + short_path(one.awaited_file);
  text += " (state D";
  if (!one.waits->channel.empty()) text += ", " + one.waits->channel;
  return text + ")" + (where.place.empty() ? "" : ", " + where.place);
}

std::string words_of(const rank_evidence& one, const standing& where, bool waits_for_gpu) {
  if (is_stopped(one)) return "had been stopped (state T)";
  if (one.waits) return wait_in_kernel(one, where);
  if (waits_for_gpu)
    return "waited for the GPU in " + one.gpu_wait +
           (where.place.empty() ? "" : ", " + where.place);
  if (!where.waits_in.empty()) {
    return "waited in " + call_of(one, where.waits_in) +
           (where.place.empty() ? "" : ", " + where.place);
  }
  if (!where.place.empty()) return "stood in " + where.place;
  std::string text = "gave no stack (state ";
  text += one.state;
  if (!one.wait_channel.empty()) text += ", " + one.wait_channel;
  return text + ")";
}

stall_kind kind_of(const rank_evidence& one, const standing& where, bool waits_for_gpu,
                   bool is_anybody_behind) {
  if (is_stopped(one) || one.waits) return stall_kind::stopped;
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
  if (now.state == 'D') return now.waits && before.waits == now.waits;
  const standing where = standing_of(now.stack);
  const bool is_known = before.record && now.record;
  if (is_known && before.record->groups != now.record->groups) return false;
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
    if (has_ended(one)) continue;
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
  for (const std::string& more : {seen.nccl_behind, mismatch_sentence(seen)}) {
    if (!more.empty()) sentence += (sentence.empty() ? "" : "; ") + more;
  }
  return sentence;
}

std::string mismatch_sentence(const node_evidence& seen) {
  const auto found = mismatch_of(records_of(seen));
  return found ? sentence_of(*found) : std::string();
}

}  // namespace ddprun::launcher::evidence
