#include "launcher/base/node_files.hpp"

#include "launcher/base/text.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace ddprun::launcher {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  return line;
}

std::string whole_text(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  // With an iterator, a file of a process that ends meanwhile would throw.
  std::ostringstream text;
  text << stream.rdbuf();
  return std::move(text).str();
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  const std::optional<std::string> line = first_line(file);
  if (!line) return std::nullopt;
  return leading_number<std::uint64_t>(*line);  // empty for "max"
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
