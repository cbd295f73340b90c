#include "launcher/cli/own_environment.hpp"

#include <filesystem>
#include <sys/auxv.h>
#include <system_error>
#include <unistd.h>

namespace ddprun::launcher {
namespace fs = std::filesystem;

std::string python_beside(const std::string& executed_as) {
  std::error_code error;
  const fs::path program = fs::absolute(executed_as, error).lexically_normal();
  if (error) return {};
  const fs::path folder = program.parent_path();
  const fs::path python = folder / "python";
  const bool is_environment = fs::exists(folder.parent_path() / "pyvenv.cfg", error) ||
                              fs::is_directory(folder.parent_path() / "conda-meta", error);
  return is_environment && ::access(python.c_str(), X_OK) == 0 ? python.string() : std::string();
}

std::string python_beside_us() {
  const auto* const name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return name == nullptr ? std::string() : python_beside(name);
}

}  // namespace ddprun::launcher
