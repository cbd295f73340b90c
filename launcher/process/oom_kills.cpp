#include "launcher/process/oom_kills.hpp"

#include "launcher/base/cgroup_folders.hpp"
#include "launcher/base/text.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

namespace ddprun::launcher {

std::optional<std::uint64_t> count_oom_kills(const std::string& file) {
  std::ifstream counters(file);
  std::string name;
  for (std::uint64_t count = 0; counters >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return {};
}

// "Memory cgroup out of memory: Killed process 4711 (python) total-vm:..."
std::optional<pid_t> oom_killed_process(std::string_view line) {
  constexpr std::string_view words = "illed process ";
  const std::size_t reason = line.find("ut of memory");
  if (reason == std::string_view::npos) return {};
  const std::size_t at = line.find(words, reason);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + words.size());
  const auto process = leading_number<pid_t>(line);
  return process && *process > 0 ? process : std::nullopt;
}

std::vector<std::string> own_oom_counters() {
  std::vector<std::string> files;
  const auto add = [&files](const std::optional<std::string>& folder, const char* name) {
    if (folder && count_oom_kills(*folder + name)) files.push_back(*folder + name);
  };
  {
    std::ifstream cgroups("/proc/self/cgroup"), mounts("/proc/self/mountinfo");
    add(own_cgroup_folder(cgroups, mounts), "/memory.events");
  }
  std::ifstream cgroups("/proc/self/cgroup"), mounts("/proc/self/mountinfo");
  add(own_cgroup_folder(cgroups, mounts, "memory"), "/memory.oom_control");
  return files;
}

void recent_oom_kills::notice(clock::time_point now, std::optional<std::uint64_t> count) {
  last_at_ = now;
  before_ = last_;
  last_ = count;
  if (last_) *last_ -= std::min(*last_, discounted_);
  if (!before_) before_ = last_;
}

bool recent_oom_kills::is_any(std::optional<std::uint64_t> counted_now) const {
  return before_ && counted_now && *counted_now > *before_ + discounted_;
}

void recent_oom_kills::discount(std::optional<std::uint64_t> counted_now) {
  if (!is_any(counted_now)) return;
  const bool is_noticed = last_ && *last_ + discounted_ == *counted_now;
  if (is_noticed) --*last_;
  ++discounted_;
}

oom_log::oom_log(const std::string& file, bool has_our_numbers) {
  if (has_our_numbers) log_.emplace(file);
}

bool oom_log::names(pid_t process) {
  for (std::size_t count = 0; log_ && count < kernel_lines_read_max; ++count) {
    const auto line = log_->next();
    if (!line) break;
    const auto killed = oom_killed_process(*line);
    if (killed && killed_.size() < killed_max) killed_.insert(*killed);
  }
  return killed_.erase(process) != 0;
}

oom_watch::oom_watch(std::vector<std::string> own, std::string host)
    : own_files_(std::move(own)), host_file_(std::move(host)) {}

void oom_watch::workers_cgroup(const std::string& folder) {
  workers_file_ = folder.empty() ? "" : folder + "/memory.events";
}

std::optional<std::uint64_t> oom_watch::count_own() const {
  std::optional<std::uint64_t> sum;
  const auto add = [&sum](const std::string& file) {
    if (const auto count = count_oom_kills(file)) sum = sum.value_or(0) + *count;
  };
  for (const std::string& file : own_files_)
    add(file);
  if (!workers_file_.empty()) add(workers_file_);
  return sum;
}

void oom_watch::notice(clock::time_point now) {
  if (!host_.is_due(now)) return;
  own_.notice(now, count_own());
  host_.notice(now, count_oom_kills(host_file_));
}

void oom_watch::discount() {
  own_.discount(count_own());
  host_.discount(count_oom_kills(host_file_));
}

std::string oom_watch::reason(pid_t process) {
  const std::string begin(out_of_memory);
  const bool is_named = log_.names(process);
  const auto own = count_own();
  if (own_.is_any(own)) {
    return begin + "the kernel has just killed a process of this job";
  }
  if (is_named) return begin + "the kernel's log says that it killed this process";
  // If our own kills are counted, or the log names killed processes, the host's counter is not
  // about us.
  if (own || log_.is_readable() || !host_.is_any(count_oom_kills(host_file_))) return {};
  return begin + "the kernel has just killed a process of this host";
}

}  // namespace ddprun::launcher
