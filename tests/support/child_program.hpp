// A program of the build under test: it is started with its output in pipes, read by lines, and
// killed.
#pragma once

#include "launcher/process/boost_spawner.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {

// Waits for the end of a process, which need not be our child.
class process_watch {
 public:
  explicit process_watch(pid_t pid)
      : pid_(pid), handle_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

  pid_t pid() const { return pid_; }

  bool gone_within(std::chrono::milliseconds limit) const {
    if (!handle_) return true;  // it had already ended
    pollfd entry{handle_.get(), POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(limit.count())) == 1;
  }

 private:
  pid_t pid_;
  unique_fd handle_;
};

// The helpers are in the folder of the running test program.
inline std::string built_program(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

class child_program {
 public:
  explicit child_program(std::vector<std::string> argv) {
    argv.front() = built_program(argv.front());
    auto output = make_pipe();
    auto errors = make_pipe();
    REQUIRE(output.has_value());
    REQUIRE(errors.has_value());
    std::vector<char*> arguments;
    for (auto& argument : argv)
      arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(output->write.get(), 1);
      ::dup2(errors->write.get(), 2);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    output_ = std::move(output->read);
    errors_ = std::move(errors->read);
  }
  ~child_program() {
    if (pid_ <= 0) return;
    kill(SIGKILL);
    wait();
  }

  pid_t pid() const { return pid_; }
  void close_output() { output_.reset(); }
  int output_fd() const { return output_.get(); }
  void kill(int signal) const { ::kill(pid_, signal); }

  // The wait status, as waitpid returns it.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

  // The next line of standard output or error, without its newline. Fails the test if none comes.
  std::string line() { return next_line(output_, output_buffer_); }
  std::string error_line() { return next_line(errors_, errors_buffer_); }

  // The number at the end of the next line that begins with `word`.
  pid_t number_after(const std::string& word) {
    while (true) {
      const std::string text = line();
      if (text.starts_with(word + " ")) return std::atoi(text.c_str() + word.size() + 1);
    }
  }

  // The rest of the output, to the end of the pipe.
  std::string rest() { return read_all(output_, output_buffer_); }
  std::string errors_rest() { return read_all(errors_, errors_buffer_); }

 private:
  static std::string next_line(const unique_fd& from, std::string& buffer) {
    while (true) {
      const auto end = buffer.find('\n');
      if (end != std::string::npos) {
        const std::string line = buffer.substr(0, end);
        buffer.erase(0, end + 1);
        return line;
      }
      if (!read_some(from, buffer)) FAIL("the output ended; left was: " << buffer);
    }
  }

  static std::string read_all(const unique_fd& from, std::string& buffer) {
    while (read_some(from, buffer)) {
    }
    return std::exchange(buffer, {});
  }

  static bool read_some(const unique_fd& from, std::string& buffer) {
    pollfd entry{from.get(), POLLIN, 0};
    constexpr std::chrono::milliseconds limit = tests::patience;
    if (::poll(&entry, 1, static_cast<int>(limit.count())) != 1)
      FAIL("no output for minutes; so far: " << buffer);
    char chunk[65536];
    const auto count = ::read(from.get(), chunk, sizeof(chunk));
    if (count <= 0) return false;
    buffer.append(chunk, static_cast<std::size_t>(count));
    return true;
  }

  pid_t pid_ = -1;
  unique_fd output_, errors_;
  std::string output_buffer_, errors_buffer_;
};

}  // namespace ddprun::launcher
