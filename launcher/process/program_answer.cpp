#include "launcher/process/program_answer.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

std::string hear(int output, duration limit, std::size_t bytes_max) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string text;
  while (text.size() < bytes_max) {
    // Rounded up: who gives up has waited for the whole limit, which callers measure.
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd ready{output, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) return "";
    std::array<char, 4096> bytes;
    const ssize_t count = ::read(output, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text;
}

// Ends with a null pointer, as exec requires.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string program_answer(std::vector<std::string> words, const environment_map& environment,
                           duration limit, std::size_t bytes_max) {
  auto pipe = make_pipe();
  if (!pipe) return "";
  std::vector<std::string> entries = to_entries(environment);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe->write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int failed = ::posix_spawnp(&process, words.front().c_str(), &actions, nullptr,
                                    pointers_to(words).data(), pointers_to(entries).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return "";
  pipe->write.reset();
  std::string answer = hear(pipe->read.get(), limit, bytes_max);
  // The answer is complete, or will not come; a program that hangs must not be waited for.
  ::kill(process, SIGKILL);
  while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return answer;
}

}  // namespace ddprun::launcher
