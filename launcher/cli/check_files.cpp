#include "launcher/cli/check_files.hpp"

#include "launcher/cli/own_environment.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {
namespace {

std::string reason(int code) {
  return std::strerror(code);
}

// Returns 0 or why the file cannot be executed.
int execution_error(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return errno;
  if (S_ISDIR(found.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

std::vector<std::string> folders_of_path(const environment_map& environment) {
  const std::string* const path = find_variable(environment, "PATH");
  std::string_view rest = path != nullptr ? std::string_view(*path) : "/bin:/usr/bin";
  std::vector<std::string> folders;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string folder(rest.substr(0, colon));
    folders.push_back(folder.empty() ? "." : folder);
    if (colon == std::string_view::npos) return folders;
    rest.remove_prefix(colon + 1);
  }
}

// Returns 0 or why no folder of PATH has it; EACCES wins over ENOENT, as in execvp().
int search_error(const std::string& name, const environment_map& environment) {
  if (name.find('/') != std::string::npos) return execution_error(name);
  int result = ENOENT;
  for (const std::string& folder : folders_of_path(environment)) {
    const int code = execution_error(folder + "/" + name);
    if (code == 0) return 0;
    if (code == EACCES) result = EACCES;
  }
  return result;
}

bool is_elf(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  char magic[4] = {};
  const bool elf = read(file, magic, sizeof magic) == 4 && std::memcmp(magic,
                                                                       "\x7f"
                                                                       "ELF",
                                                                       4) == 0;
  close(file);
  return elf;
}

cli::checked check_program_file(const std::string& program, const environment_map& environment) {
  const int code = search_error(program, environment);
  if (code == 0) return {};
  std::string text = program + ": the program cannot be executed: " + reason(code);
  if (code == ENOENT) {
    const bool from_path = program.find('/') == std::string::npos;
    const bool is_here = from_path && access(("./" + program).c_str(), F_OK) == 0;
    text += is_here ? "; it is not in PATH, write ./" + program
                    : (from_path ? "; it is not in PATH" : "; check the path");
  } else if (code == EACCES) {
    text += "; chmod +x, or leave --no-python out if it is a Python script";
  }
  return cli::usage_error{text};
}

cli::checked check_script(const std::string& script) {
  if (access(script.c_str(), R_OK) != 0) {
    const int code = errno;
    std::string text = script + ": the script cannot be read: " + reason(code);
    if (code == ENOENT) text += "; check the path (-m for a Python module)";
    return cli::usage_error{text};
  }
  struct stat found = {};
  if (stat(script.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    // Python can run a folder that has a __main__.py.
    if (access((script + "/__main__.py").c_str(), R_OK) == 0) return {};
    return cli::usage_error{script + ": that is a folder without a __main__.py; name a script"};
  }
  if (is_elf(script)) {
    return cli::usage_error{script + ": that is a program, not a Python script; add --no-python"};
  }
  return {};
}

// Creates the file now, so that a missing folder or a full disk is reported before the work begins.
cli::checked check_report_file(const std::string& path) {
  if (path.empty()) return {};
  const unique_fd file(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  if (file) return {};
  return cli::usage_error{"--report: " + path + " cannot be written: " + reason(errno) +
                          "; name a file that this user may write"};
}

}  // namespace

std::string nccl_helper_program() {
  std::error_code error;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return (folder / "ddprun-nccl-id").string();
}

// Finds what `python` means in the shell that started us: the environment that was activated last
// (venv, conda, pyenv's shims, a module) comes first in PATH.
std::string python_program(const environment_map& environment) {
  const std::string* const chosen = find_variable(environment, "PYTHON_EXEC");
  if (chosen != nullptr && !chosen->empty()) return *chosen;
  if (std::string own = python_beside_us(); !own.empty()) return own;
  const std::string* const venv = find_variable(environment, "VIRTUAL_ENV");
  const std::vector<std::string> folders = folders_of_path(environment);
  if (venv != nullptr && !venv->empty()) {
    const std::string own = *venv + "/bin";
    const bool is_in_path = std::find(folders.begin(), folders.end(), own) != folders.end();
    if (!is_in_path) return own + "/python";
  }
  for (const std::string& folder : folders) {
    for (const char* const name : {"/python3", "/python"}) {
      if (execution_error(folder + name) == 0) return folder + name;
    }
  }
  return "python3";
}

cli::checked check_files(const launch_options& options, const environment_map& environment) {
  if (const cli::checked wrong = check_report_file(options.output.report_file)) return wrong;
  if (options.nccl_ids == nccl_id_mode::on) {
    const std::string helper = nccl_helper_program();
    if (const int code = execution_error(helper); code != 0) {
      return cli::usage_error{"--nccl-ids=on: " + helper + " cannot be executed: " + reason(code) +
                              "; install it beside ddprun, or use --nccl-ids=off"};
    }
  }
  if (options.no_python && !options.run_path)
    return check_program_file(options.program, environment);
  if (!options.module || options.run_path) {
    if (const cli::checked wrong = check_script(options.program)) return wrong;
  }
  const int code = search_error(options.python, environment);
  if (code == 0) return {};
  return cli::usage_error{options.python + ": Python cannot be executed: " + reason(code) +
                          "; set PYTHON_EXEC to the one to use (--no-python for a plain program)"};
}

}  // namespace ddprun::launcher
