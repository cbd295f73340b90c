// A host link is one ssh to one host, from its start until the process and both of its outputs have
// ended. It knows the script's words (remote_script.hpp), and decides nothing.
//
// Its standard input is the lifeline of all that it has started there: once that is closed, or ssh
// is gone, the agent there stops its workers and ends. So does ssh itself when this process dies.
//
// Thread rule: the thread of the executor. Ownership: owns the process and its pipes. Handlers come
// from the loop; `ended` is the last one and may destroy the link.
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
  std::optional<exit_status> status;      // none: ssh could not be started
  std::vector<std::string> last_errors;   // the last lines that ssh, or who spoke there, wrote
  std::vector<std::string> before_magic;  // the same on standard output, where no script ever ran
};

class host_link {
 public:
  struct handlers {
    // A line of the script's or of ddprun's own: "found", "/usr/bin/ddprun".
    std::function<void(std::string_view word, std::string_view rest)> told;
    // What is on standard error and not marked. True: it is taken, and not to be shown.
    std::function<bool(std::string_view line)> take_error;
    std::function<void(const link_end& end)> ended;
  };

  // `host`: its number, for the writer.
  host_link(boost::asio::any_io_executor executor, spawner& spawn, log::writer& out,
            std::size_t host, std::string magic, handlers told);
  ~host_link();
  host_link(const host_link&) = delete;
  host_link& operator=(const host_link&) = delete;

  // Starts ssh. `told_.ended` comes from the loop where that fails.
  void start(const std::vector<std::string>& words, const std::vector<std::string>& environment);
  // To its standard input, in order; bytes that nobody takes are forgotten at the end.
  void send(std::string bytes);
  // Once all of that is written.
  void close_input();
  void signal(int number);
  // It is ended where it stays although nothing has come from it for so long.
  void end_within(std::chrono::seconds limit);
  // From now on what is not ours is the workers' output.
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
  bool has_spoken_ = false;  // the magic line has come
  int parts_left_ = 0;       // the process and its two outputs
  link_end end_;
  boost::asio::steady_timer timer_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::ssh
