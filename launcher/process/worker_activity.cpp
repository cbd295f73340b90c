#include "launcher/process/worker_activity.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/process/process_table.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t bytes_that_count = 64 * 1024;
constexpr std::int64_t processor_share = 20;  // one in so many

std::uint64_t number_after(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

}  // namespace

worker_activity::usage worker_activity::usage_of(pid_t process) {
  usage found;
  const std::optional<process_stat> stat = stat_of(process);
  if (!stat) return found;
  found.waits_for_disk = stat->state == 'D';
  found.may_run = stat->state == 'R';
  found.ticks = stat->ticks;
  const std::string io =
      whole_text("/proc/" + std::to_string(process) + "/io");  // empty without permission
  found.bytes = number_after(io, "wchar: ");
  return found;
}

bool worker_activity::are_busy(const std::vector<pid_t>& groups, time_point now) {
  std::vector<pid_t> leaders;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(leaders),
               [](pid_t leader) { return has_handler(leader, SIGTERM); });
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - looked_at_);
  const std::int64_t ticks_that_count =
      std::max<std::int64_t>(2, ::sysconf(_SC_CLK_TCK) * passed.count() / 1000 / processor_share);
  struct group_usage {
    std::int64_t ticks = 0;
    std::uint64_t bytes = 0;
    bool may_run = false;
  };
  std::map<pid_t, group_usage> used;
  std::map<pid_t, usage> seen;
  bool are_busy = false;
  for (const process_entry& one :
       leaders.empty() ? std::vector<process_entry>() : list_processes()) {
    if (one.dead || std::find(leaders.begin(), leaders.end(), one.group) == leaders.end()) continue;
    const usage now_used = usage_of(one.pid);
    seen[one.pid] = now_used;
    const auto before = last_.find(one.pid);
    if (before == last_.end()) continue;
    group_usage& of_group = used[one.group];
    of_group.ticks += static_cast<std::int64_t>(now_used.ticks - before->second.ticks);
    of_group.bytes += now_used.bytes - before->second.bytes;
    of_group.may_run = of_group.may_run || (now_used.may_run && before->second.may_run);
    are_busy = are_busy || (now_used.waits_for_disk && before->second.waits_for_disk);
  }
  for (const auto& [group, sum] : used) {
    std::uint64_t& written = written_[group];
    written += sum.bytes;
    const bool computes =
        (sum.ticks >= ticks_that_count || sum.may_run) && written >= bytes_that_count;
    are_busy = are_busy || sum.bytes >= bytes_that_count || computes;
  }
  last_ = std::move(seen);
  looked_at_ = now;
  return are_busy;
}

}  // namespace ddprun::launcher
