#include "launcher/hosts/doctor/node_files.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace ddprun::launcher::doctor {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  const std::optional<std::string> line = first_line(file);
  if (!line) return std::nullopt;
  std::uint64_t value = 0;
  const auto end = std::from_chars(line->data(), line->data() + line->size(), value);
  if (end.ec != std::errc()) return std::nullopt;  // "max"
  return value;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error))
    names.push_back(each->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<fs::path> own_cgroups(const fs::path& root) {
  const fs::path mounted = root / "sys/fs/cgroup";
  std::error_code error;
  if (!fs::exists(mounted / "cgroup.controllers", error)) return {};
  std::ifstream lines(root / "proc/self/cgroup");
  fs::path own;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::/")) own = line.substr(4);
  }
  // A container sees its own cgroup as the root, and may not see the path that the host gave it.
  if (own.empty() || !fs::exists(mounted / own, error)) return {mounted};
  std::vector<fs::path> found;
  for (; !own.empty(); own = own.parent_path())
    found.push_back(mounted / own);
  found.push_back(mounted);
  return found;
}

std::string size_text(std::uint64_t bytes) {
  constexpr double kib = 1024;
  const auto size = static_cast<double>(bytes);
  if (size < kib * kib) return fmt::format("{:.0f} KiB", size / kib);
  if (size < kib * kib * kib) return fmt::format("{:.0f} MiB", size / kib / kib);
  return fmt::format("{:.1f} GiB", size / kib / kib / kib);
}

}  // namespace ddprun::launcher::doctor
