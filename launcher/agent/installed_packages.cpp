#include "launcher/agent/installed_packages.hpp"

#include "launcher/cli/check_files.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds limit{30};
constexpr std::size_t answer_bytes_max = 4096;
constexpr const char* torch_version = "import importlib.metadata as m; print(m.version('torch'))";
constexpr const char* nccl_library =
    "import importlib.util as u, os\n"
    "folders = u.find_spec('nvidia.nccl').submodule_search_locations\n"
    "print(os.path.join(list(folders)[0], 'lib', 'libnccl.so.2'))";

// Up to the end of the output, or what there is after `limit`.
std::string hear(int output) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string text;
  while (text.size() < answer_bytes_max) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd ready{output, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return "";
    std::array<char, answer_bytes_max> bytes;
    const ssize_t count = ::read(output, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text.substr(0, text.find('\n'));
}

// The first line that Python prints; empty where it does not.
std::string ask_python(const environment_map& environment, std::string code) {
  auto pipe = make_pipe();
  if (!pipe) return "";
  std::string python = python_program(environment);
  std::string option = "-c";
  std::vector<char*> words{python.data(), option.data(), code.data(), nullptr};
  std::vector<std::string> entries = to_entries(environment);
  std::vector<char*> variables;
  for (std::string& entry : entries)
    variables.push_back(entry.data());
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe->write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int failed =
      ::posix_spawnp(&process, python.c_str(), &actions, nullptr, words.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return "";
  pipe->write.reset();
  std::string answer = hear(pipe->read.get());
  // It has said all that it was asked for, or will not; what hangs cannot be waited for.
  ::kill(process, SIGKILL);
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace

std::string installed_torch(const environment_map& environment) {
  return ask_python(environment, torch_version);
}

std::string installed_nccl(const environment_map& environment) {
  return ask_python(environment, nccl_library);
}

}  // namespace ddprun::launcher
