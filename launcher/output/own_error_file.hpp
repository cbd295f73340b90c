// The launcher's own $TORCHELASTIC_ERROR_FILE: written once, when a run that has failed ends here.
//
// It is replaced as a whole, so that nobody reads a half of it. Where that cannot be (a file
// mounted into a container, a pipe, a device, a folder that takes no new file) it is written as it
// stands. The disk may hang: whoever waits for the file waits `limit` at most.
//
// Thread rule: one thread, that of the executor; the disk is another thread's. The handlers come
// from the loop, after destruction none does.
#pragma once

#include "launcher/process/background_task.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace ddprun::launcher {

// What is in the way; empty: it is written. `mark`: of this process alone, for the name of the file
// that is made beside it. Blocks while the disk does.
std::string replace_file(const std::string& path, const std::string& content,
                         const std::string& mark);

class own_error_file {
 public:
  struct options {
    std::string path;  // empty: nobody wants it
    std::string mark;  // as of replace_file
    std::chrono::milliseconds limit{2000};
  };

  static options wanted(const environment_map& environment, std::string mark);

  // `warn` is told in a line that it could not be written.
  own_error_file(boost::asio::any_io_executor executor, options values,
                 std::function<void(const std::string& line)> warn);

  bool is_wanted() const { return !options_.path.empty(); }
  // Once. Nothing where it is not wanted.
  void write(std::string content);
  // At once, unless it is being written now.
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
