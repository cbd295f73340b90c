#include "launcher/evidence/movement.hpp"

#include "launcher/process/process_table.hpp"

#include <algorithm>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

constexpr unsigned long long bytes_that_count = 64 * 1024;
constexpr unsigned long long processor_share = 20;  // one in so many

}  // namespace

movement look_for_moves(const std::vector<pid_t>& leaders, const movement& before,
                        const std::set<pid_t>& by_steps) {
  movement now;
  now.at = std::chrono::steady_clock::now();
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now.at - before.at);
  const auto per_second = static_cast<unsigned long long>(::sysconf(_SC_CLK_TCK));
  const unsigned long long ticks_that_count = std::max(
      2ULL, per_second * static_cast<unsigned long long>(passed.count()) / 1000 / processor_share);
  const auto has_moved = [&](pid_t pid) {
    const process_usage used = usage_of(pid);
    if (used.state == '?') return false;
    now.seen[pid] = used;
    const auto last = before.seen.find(pid);
    if (last == before.seen.end() || used.state == 'D') return true;
    const bool has_computed = used.ticks - last->second.ticks >= ticks_that_count;
    return (has_computed && !by_steps.contains(pid)) ||
           used.bytes - last->second.bytes >= bytes_that_count;
  };
  std::vector<pid_t> quiet;
  for (const pid_t leader : leaders) {
    if (has_moved(leader)) {
      now.moved.insert(leader);
    } else {
      quiet.push_back(leader);
    }
  }
  if (quiet.empty()) return now;
  for (const process_entry& one : list_processes()) {
    if (one.dead || one.pid == one.group) continue;
    if (std::find(quiet.begin(), quiet.end(), one.group) == quiet.end()) continue;
    if (has_moved(one.pid)) now.moved.insert(one.group);
  }
  return now;
}

}  // namespace ddprun::launcher::evidence
