// The socket thread runs the sockets that must not slow down the main thread: the round's port, the
// tethers that a leader holds, and the embedded daemon. Connections to a store are recognised here
// and passed on to a thread of their own (store/store_thread.hpp).
//
// The main thread forks, and each fork takes longer with every socket in its own context. So ten
// thousand tethers are here. The two threads exchange only values.
//
// Thread rule: constructed, started and stopped by the main thread; posted handlers run on the
// socket thread. It is started on first use, so that a node without a daemon has no such thread.
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
  // `told` gets a line, on the socket thread, when a handler has failed for lack of memory or an
  // error of the system. Other handlers go on.
  explicit socket_thread(std::function<void(const std::string&)> told = [](const auto&) {});
  // Stops the thread; handlers that have not begun never run.
  ~socket_thread();
  socket_thread(const socket_thread&) = delete;
  socket_thread& operator=(const socket_thread&) = delete;

  // Starts the thread unless it runs. Errors: the system's, out of threads.
  error_code start();
  void stop();
  // Like stop(), but does not wait: the thread ends while the caller does something else.
  void ask_to_stop();
  // False until the first start; posted handlers wait for that.
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
