// The socket thread carries the sockets that must not slow the main thread: the round's port, the
// tethers that a leader holds, and the embedded daemon. Connections to a store are told apart here
// and then go to a thread of their own (store/store_thread.hpp).
//
// The main thread forks, and each fork costs it time for every socket of its own context; ten
// thousand tethers therefore live here. Only values are posted between the two.
//
// Thread rule: constructed, started and stopped by the main thread; all that is posted runs on the
// socket thread. Started on first use, so that a plain node without a daemon pays for no thread.
#pragma once

#include "rendezvous/base/error.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace ddprun::launcher {

class socket_thread {
 public:
  // `told` gets a line, on the socket thread, for a handler that could not do its part: no memory,
  // or a refusal of the system. The others go on.
  explicit socket_thread(std::function<void(const std::string&)> told = [](const auto&) {});
  // Stops the thread: handlers that have not begun by then never run.
  ~socket_thread();
  socket_thread(const socket_thread&) = delete;
  socket_thread& operator=(const socket_thread&) = delete;

  // Starts the thread if it does not run yet. Errors: the system's, out of threads.
  error_code start();
  void stop();
  // The same without the wait: the thread ends while the caller does something else.
  void ask_to_stop();
  // False until the first start: nothing that is posted is heard before.
  bool started() const { return thread_.joinable(); }

  boost::asio::io_context& context() { return context_; }
  boost::asio::any_io_executor executor() { return context_.get_executor(); }

 private:
  const std::function<void(const std::string&)> told_;
  boost::asio::io_context context_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::thread thread_;
};

}  // namespace ddprun::launcher
