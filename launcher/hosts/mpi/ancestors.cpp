#include "launcher/hosts/mpi/ancestors.hpp"

#include "launcher/base/node_files.hpp"

#include <algorithm>
#include <cstdlib>

namespace ddprun::launcher::hosts::mpi {
namespace {

// TASK_COMM_LEN of the kernel, without the terminator.
constexpr std::size_t task_name_bytes_max = 15;
constexpr int generations_max = 64;

std::vector<std::string> parts_between_zeros(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct process_line {
  std::string name;
  int parent = 0;  // 0: none is visible
};

// Reads "12 (a name) S 11 ..."; the name may contain blanks and brackets.
process_line read_process(const std::string& folder) {
  const std::string line = whole_text(folder + "/stat");
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 > line.size()) return {};
  return {line.substr(open + 1, close - open - 1), std::atoi(line.c_str() + close + 4)};
}

}  // namespace

ancestors own_ancestors(const std::string& proc) {
  ancestors found;
  int next = read_process(proc + "/self").parent;
  while (next > 0 && found.size() < generations_max) {
    const std::string folder = proc + "/" + std::to_string(next);
    const process_line process = read_process(folder);
    if (process.name.empty()) break;
    found.push_back({next, process.name, parts_between_zeros(whole_text(folder + "/cmdline"))});
    next = process.parent;
  }
  return found;
}

bool is_named(const ancestor& process, std::string_view whole_name) {
  return process.name == whole_name.substr(0, task_name_bytes_max);
}

}  // namespace ddprun::launcher::hosts::mpi
