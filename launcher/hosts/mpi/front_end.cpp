#include "launcher/hosts/mpi/front_end.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ddprun::launcher::hosts::mpi {
namespace {

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string_view without_dashes(std::string_view argument) {
  if (!argument.starts_with('-')) return {};
  argument.remove_prefix(argument.starts_with("--") ? 2 : 1);
  return argument;
}

// Accepts "tag", "tag-detailed:...", "timestamp,tag".
bool is_tag_choice(std::string_view value) {
  return value.starts_with("tag") || value.find(",tag") != std::string_view::npos;
}

}  // namespace

bool is_front_end(const ancestor& process) {
  for (const std::string_view name :
       {"mpirun", "mpiexec", "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi",
        "mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra"}) {
    if (is_named(process, name)) return true;
  }
  return false;
}

const ancestor* front_end(const ancestors& above) {
  const auto found = std::find_if(above.begin(), above.end(), is_front_end);
  return found == above.end() ? nullptr : &*found;
}

std::vector<std::string> options_of(const ancestor& process) {
  if (process.arguments.empty()) return {};
  const auto first = std::next(process.arguments.begin());
  const auto program =
      std::find_if(first, process.arguments.end(),
                   [](const std::string& argument) { return file_name(argument) == "ddprun"; });
  return {first, program};
}

bool tags_lines(const environment_map& environment, const ancestors& above) {
  const std::string told = variable_or_empty(environment, "OMPI_MCA_orte_tag_output");
  if (!told.empty()) return told != "0" && told != "false";
  const ancestor* const front = front_end(above);
  if (front == nullptr) return false;
  const std::vector<std::string> options = options_of(*front);
  for (std::size_t index = 0; index < options.size(); ++index) {
    const std::string_view word = without_dashes(options[index]);
    for (const std::string_view option : {"tag-output", "l", "prepend-rank", "prepend-pattern"}) {
      if (word == option) return true;
    }
    if (word.starts_with("output=") && is_tag_choice(word.substr(7))) return true;
    const bool has_value = index + 1 < options.size();
    if (word == "output" && has_value && is_tag_choice(options[index + 1])) return true;
  }
  return false;
}

}  // namespace ddprun::launcher::hosts::mpi
