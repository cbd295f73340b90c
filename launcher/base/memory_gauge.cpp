#include "launcher/base/memory_gauge.hpp"

#include "launcher/base/cgroup_folders.hpp"
#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

// Version 1 expresses "no limit" as a number close to the maximum.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

// Reads "MemAvailable:   104857600 kB".
std::optional<std::uint64_t> kilobytes(const std::string& text, std::string_view name) {
  const std::size_t at = text.starts_with(name) ? 0 : text.find('\n' + std::string(name));
  if (at == std::string::npos) return std::nullopt;
  const std::size_t colon = text.find(':', at);
  const auto number =
      leading_number<std::uint64_t>(trimmed(std::string_view(text).substr(colon + 1)));
  return number ? std::optional(*number * 1024) : std::nullopt;
}

// Reads "full avg10=1.25 avg60=...".
double stalled_percent(const std::string& file) {
  const std::string text = whole_text(file);
  const std::size_t at = text.find("full ");
  double percent = 0;
  if (at != std::string::npos) std::sscanf(text.c_str() + at, "full avg10=%lf", &percent);
  return percent;
}

std::uint64_t cached_in(const std::string& group, std::string_view prefix) {
  std::ifstream lines(group + "/memory.stat");
  std::uint64_t sum = 0;
  std::string name;
  for (std::uint64_t bytes = 0; lines >> name >> bytes;) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view kind = std::string_view(name).substr(prefix.size());
    if (kind == "inactive_file" || kind == "active_file") sum += bytes;
  }
  return sum;
}

struct group_files {
  const char* used;
  std::vector<const char*> limits;
  std::string_view prefix;  // of the lines in memory.stat that include all groups below
};

void add_group(std::vector<memory_level>& levels, const std::string& group, const std::string& root,
               const group_files& files) {
  std::optional<std::uint64_t> most;
  for (const char* const name : files.limits) {
    const auto limit = number_in(group + name);
    if (limit && *limit < no_limit) most = std::min(most.value_or(*limit), *limit);
  }
  const auto used = number_in(group + files.used);
  if (!most || !used) return;
  const std::uint64_t held = *used - std::min(*used, cached_in(group, files.prefix));
  levels.push_back({"cgroup " + group.substr(root.size()), *most - std::min(*most, held), *most,
                    stalled_percent(group + "/memory.pressure")});
}

}  // namespace

memory_gauge::memory_gauge(std::string root)
    : root_(std::move(root)),
      groups_(own_cgroup_folders(root_)),
      older_groups_(own_cgroup_folders(root_, "memory")) {}

std::vector<memory_level> memory_gauge::read() const {
  std::vector<memory_level> levels;
  const std::string machine = whole_text(root_ + "/proc/meminfo");
  const auto left = kilobytes(machine, "MemAvailable:");
  const auto most = kilobytes(machine, "MemTotal:");
  if (left) {
    levels.push_back({"this machine", *left, most.value_or(*left),
                      stalled_percent(root_ + "/proc/pressure/memory")});
  }
  for (const std::string& group : groups_)
    add_group(levels, group, root_, {"/memory.current", {"/memory.max", "/memory.high"}, ""});
  for (const std::string& group : older_groups_)
    add_group(levels, group, root_,
              {"/memory.usage_in_bytes", {"/memory.limit_in_bytes"}, "total_"});
  return levels;
}

std::uint64_t anonymous_memory(pid_t process) {
  return kilobytes(whole_text("/proc/" + std::to_string(process) + "/status"), "RssAnon:")
      .value_or(0);
}

}  // namespace ddprun::launcher
