#include "launcher/base/node_files.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

namespace ddprun::launcher {

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

}  // namespace ddprun::launcher
