// The signals that the agent gets: some end its part in the run, SIGUSR1 and SIGUSR2 are for the
// workers.
//
// A batch system that signals every process of a job reaches the workers itself, before or after
// us, and they must not get the signal twice. It also reaches the guardian, which nobody signals
// who means ddprun alone. So the guardian is asked, guardian_answer_limit later.
//
// Thread rule: one thread, that of the executor; callbacks are called from its loop and from
// hear(), and none after destruction.
#pragma once

#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

class signal_watch {
 public:
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<void(int signal)> asked_to_end;
    std::function<bool()> has_left;  // this node: user signals are for nobody any more
    std::function<bool()> has_guardian;
    // True if the guardian got the signal, too, which came here at `heard`.
    std::function<bool(int signal, time_point heard)> guardian_got;
    std::function<std::vector<worker_group::live_worker>()> living;
    // False: the worker has no handler for it.
    std::function<bool(pid_t worker, int signal)> pass_on;
  };

  signal_watch(boost::asio::any_io_executor executor, outside with);

  // Of these, SIGHUP and the user signals stay ignored if they were (nohup).
  void start();
  // From here on they do what the system does by default.
  void stop() { signals_.clear(); }

  // A signal is here. Tests call it, too.
  void hear(int signal);

 private:
  void await();
  void hear_user_signal(int signal);
  void tell_spared(int signal) const;
  void pass_on(int signal) const;

  boost::asio::any_io_executor executor_;
  outside outside_;
  boost::asio::signal_set signals_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
