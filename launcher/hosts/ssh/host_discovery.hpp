// The host discovery repeatedly asks the user's script which hosts there are, in horovod's form:
// one host per line, "a:4" or "a". It passes on what the script has printed, or why there is
// nothing, and decides nothing.
//
// One script runs at a time; the next one starts a second after the last has ended. A script that
// does not end is killed together with everything that it has started.
//
// Thread rule: the thread of the executor. Ownership: owns the process. `heard` is called from the
// loop, and not after `stop`. Source of the form: horovod, runner/elastic/discovery.py.
#pragma once

#include "launcher/process/spawner.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/cli/usage_error.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

inline constexpr auto discovery_interval = std::chrono::seconds(1);
// The time for a script that asks a cloud's API or a busy scheduler.
inline constexpr auto discovery_limit = std::chrono::seconds(30);
inline constexpr std::size_t discovered_bytes_max = 1024 * 1024;

// The command for `script`: a file is executed directly, anything else is a shell command, as in
// horovod. `given` is the option as the user wrote it. Reads the file system.
cli::parsed<std::vector<std::string>> discovery_command(std::string_view given,
                                                        const std::string& script);

class host_discovery {
 public:
  struct answer {
    std::string text;     // what it has printed
    std::string problem;  // why that cannot be used; otherwise empty
  };
  using handler = std::function<void(const answer& heard)>;

  host_discovery(boost::asio::any_io_executor executor, spawner& spawn,
                 std::vector<std::string> command, std::vector<std::string> environment,
                 handler heard, std::chrono::milliseconds limit = discovery_limit);
  ~host_discovery();
  host_discovery(const host_discovery&) = delete;
  host_discovery& operator=(const host_discovery&) = delete;

  void start();
  void stop();

 private:
  void run();
  void ask_later();
  void take(boost::asio::posix::stream_descriptor& from, std::string& to);
  bool read_some(boost::asio::posix::stream_descriptor& from, std::string& to);
  void limit_time();
  void over(const exit_status& status);
  void finish(std::string problem);
  void kill();

  boost::asio::any_io_executor executor_;
  spawner& spawner_;
  const std::vector<std::string> command_;
  const std::vector<std::string> environment_;
  handler heard_;
  const std::chrono::milliseconds limit_;
  pid_t pid_ = -1;
  boost::asio::posix::stream_descriptor output_;
  boost::asio::posix::stream_descriptor errors_;
  boost::asio::steady_timer timer_;  // the time limit, or the start of the next run
  std::string text_;
  std::string error_text_;
  std::string why_killed_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::ssh
