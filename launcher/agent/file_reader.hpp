// Reads small files that other programs have written, each on a thread of its own: the disk may
// hang, and the caller continues without the file after a limit.
//
// Thread rule: one thread, that of the executor. Each handler is called once, from the loop, in any
// order; none after destruction.
#pragma once

#include "launcher/process/background_task.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <string>

namespace ddprun::launcher {

class file_reader {
 public:
  // Empty: there is no such file, it is too large, or it could not be read in time.
  using handler = std::function<void(const std::string& content)>;

  explicit file_reader(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  struct request {
    std::string path;
    std::size_t bytes_max = 0;
    bool is_removed = false;  // after it was read
    std::chrono::milliseconds limit{1000};
  };
  void read(const request& what, handler done);

 private:
  struct reading {
    explicit reading(const boost::asio::any_io_executor& executor)
        : work(executor), timer(executor) {}
    background_task<std::string> work;
    boost::asio::steady_timer timer;
    handler done;
    lifetime alive;
  };
  void end(std::list<reading>::iterator one, const std::string& content);

  boost::asio::any_io_executor executor_;
  std::list<reading> readings_;
};

}  // namespace ddprun::launcher
