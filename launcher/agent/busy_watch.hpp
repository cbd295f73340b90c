// The busy_watch checks twice a second whether the workers are busy, from when they were asked to
// end until none is alive; the machine decides what follows from it.
//
// Thread rule: the main thread.
#pragma once

#include "launcher/process/worker_activity.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <vector>

namespace ddprun::launcher {

class busy_watch {
 public:
  // `leaders` returns the leaders of the live workers' groups; none: the watch ends. `busy` is
  // called while they are busy.
  busy_watch(boost::asio::any_io_executor executor, std::function<std::vector<pid_t>()> leaders,
             std::function<void()> busy);

  void start();
  void stop();

 private:
  void look();
  void look_later();

  boost::asio::steady_timer timer_;
  std::function<std::vector<pid_t>()> leaders_;
  std::function<void()> busy_;
  worker_activity activity_;
};

}  // namespace ddprun::launcher
