// The timer_watch kills workers whose timers have expired: timers that they set for themselves with
// torch.distributed.elastic.timer, on a pipe (timer_pipe.hpp) whose path is in their environment.
// An expired timer ends its worker, and so the round.
//
// Thread rule: the main thread; handlers are called from the executor, `say` also from the
// constructor. Ownership: destroy it before its io_context. Errors: one line of each kind.
#pragma once

#include "launcher/process/timer_pipe.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher {

class timer_watch {
 public:
  struct outside {
    std::function<void(const std::string& line)> say;
    // The worker in whose session that process runs; none: no worker of this node, or it is gone.
    std::function<std::optional<worker_group::live_worker>(pid_t process)> holder_of;
    // True if the workers were asked to end: they have their grace for it.
    std::function<bool()> is_ending;
  };

  // Does nothing unless the environment asks for timers. It sets the path of the pipe in the
  // environment that workers inherit. Without a pipe the variable is removed, as with a launcher
  // that has no timers: a path without a reader would end the workers. `mark` is unique to this
  // process.
  timer_watch(boost::asio::any_io_executor executor, environment_map& environment,
              const std::string& mark, outside with);
  ~timer_watch();
  timer_watch(const timer_watch&) = delete;
  timer_watch& operator=(const timer_watch&) = delete;

  void begin_round();
  // Adds the timer to the cause if it has ended this worker.
  void name_timer(const worker_end& end, cause& why) const;

 private:
  void end_by(const workers::expired_timer& timer);

  struct timer_signal {
    int number = 0;
    std::string text;
  };
  outside outside_;
  std::map<pid_t, timer_signal> expired_;  // the last timer of each of those workers
  std::unique_ptr<timer_pipe> pipe_;       // none: timers are not asked for
};

}  // namespace ddprun::launcher
