// The launcher's own $TORCHELASTIC_ERROR_FILE, written once, when a failed run ends here.
//
// The file is replaced as a whole, so that nobody reads half of it. If that is not possible (a file
// mounted into a container, a pipe, a device, a folder that takes no new file), it is written in
// place. The disk may hang, so callers wait for at most `limit`.
//
// Thread rule: one thread, that of the executor; the disk has another thread. Handlers are called
// from the loop, and not after destruction.
#pragma once

#include "launcher/process/background_task.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace ddprun::launcher {

// Returns the problem; empty: written. `mark` is unique to this process, for the name of the
// temporary file. Blocks while the disk does.
std::string replace_file(const std::string& path, const std::string& content,
                         const std::string& mark);

class own_error_file {
 public:
  struct options {
    std::string path;  // empty: not wanted
    std::string mark;  // as for replace_file
    std::chrono::milliseconds limit{2000};
  };

  static options wanted(const environment_map& environment, std::string mark);

  // `warn` gets one line if the file cannot be written.
  own_error_file(boost::asio::any_io_executor executor, options values,
                 std::function<void(const std::string& line)> warn);

  bool is_wanted() const { return !options_.path.empty(); }
  // Call it once. Does nothing if the file is not wanted.
  void write(std::string content);
  // Calls `then` at once, or when the write that is under way ends.
  void when_written(std::function<void()> then);

 private:
  void end(const std::string& problem);

  options options_;
  std::function<void(const std::string&)> warn_;
  background_task<std::string> work_;
  boost::asio::steady_timer timer_;
  bool is_writing_ = false;
  std::function<void()> then_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
