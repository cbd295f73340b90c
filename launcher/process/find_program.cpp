#include "launcher/process/find_program.hpp"

#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

std::string_view path_of(const std::vector<std::string>& environment) {
  for (const auto& variable : environment) {
    if (variable.starts_with("PATH=")) return std::string_view(variable).substr(5);
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

bool is_program(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::optional<std::string> find_program(const std::string& name,
                                        const std::vector<std::string>& environment) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) return name;
  std::string_view rest = path_of(environment);
  while (true) {
    const auto colon = rest.find(':');
    const auto folder = rest.substr(0, colon);
    // An empty entry means the working directory, as in a shell.
    std::string path = folder.empty() ? "." : std::string(folder);
    path += '/' + name;
    if (is_program(path)) return path;
    if (colon == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace ddprun::launcher
