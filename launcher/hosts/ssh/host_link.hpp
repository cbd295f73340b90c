// A host link is one ssh to one host, from its start until the process and both of its outputs have
// ended. It knows the words of the script (remote_script.hpp) and decides nothing.
//
// The standard input of ssh is the lifeline of everything that it has started on the host: when it
// is closed, or ssh is gone, the agent there stops its workers and ends. ssh itself ends when this
// process dies.
//
// Thread rule: the executor's thread. Ownership: owns the process and its pipes. Handlers are
// called from the loop; `ended` is the last one and may destroy the link.
#pragma once

#include "launcher/hosts/ssh/host_stream.hpp"
#include "launcher/process/spawner.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/log/writer.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

struct link_end {
  std::optional<exit_status> status;     // none: ssh could not be started
  std::vector<std::string> last_errors;  // the last lines on standard error that are not ours
  // The last lines on standard output; kept only until the script has spoken.
  std::vector<std::string> before_magic;
};

class host_link {
 public:
  struct handlers {
    // A line of the script or of ddprun itself, for example "found", "/usr/bin/ddprun".
    std::function<void(std::string_view word, std::string_view rest)> told;
    // An unmarked line on standard error. True: the handler has taken it, and it is not shown.
    std::function<bool(std::string_view line)> take_error;
    std::function<void(const link_end& end)> ended;
  };

  // `host` is the number that tells the writer whose output it is.
  host_link(boost::asio::any_io_executor executor, spawner& spawn, log::writer& out,
            std::size_t host, std::string magic, handlers told);
  ~host_link();
  host_link(const host_link&) = delete;
  host_link& operator=(const host_link&) = delete;

  // Starts ssh. If that fails, `told_.ended` is called from the loop.
  void start(const std::vector<std::string>& words, const std::vector<std::string>& environment);
  // Writes to the standard input of ssh, in order. Drops bytes that are never read.
  void send(std::string bytes);
  // Closes the standard input once everything before is written.
  void close_input();
  void signal(int number);
  // Ends ssh if it still runs after this time without any output.
  void end_within(std::chrono::seconds limit);
  // From now on, lines that are not ours are passed on: they are the workers' output.
  void let_pass();
  void resume(log::output_stream stream);

 private:
  bool take_output(std::string_view line);
  bool take_errors(std::string_view line);
  bool take_marked(std::string_view line);
  void write_next();
  void part_ended();
  void look_at_outputs();
  void end_if_idle(std::uint64_t bytes_before, std::chrono::seconds limit);
  std::uint64_t bytes_read() const;

  boost::asio::any_io_executor executor_;
  spawner& spawner_;
  log::writer& writer_;
  const std::size_t host_;
  const std::string magic_;
  handlers told_;
  pid_t pid_ = -1;
  boost::asio::posix::stream_descriptor input_;
  std::deque<std::string> to_write_;
  bool closes_input_ = false;
  std::unique_ptr<host_stream> output_;
  std::unique_ptr<host_stream> errors_;
  bool has_spoken_ = false;  // the magic line has arrived
  int parts_left_ = 0;       // of the process and its two outputs, those that have not ended
  link_end end_;
  boost::asio::steady_timer timer_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::ssh
