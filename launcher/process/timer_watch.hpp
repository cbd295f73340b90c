// The timer_watch ends workers whose timers have expired: those that they set for themselves by
// torch.distributed.elastic.timer, on a pipe (timer_pipe.hpp) whose path is in their environment.
// One that expires ends its worker, and so the round.
//
// Thread rule: the main thread; handlers come from the executor, `say` also from the constructor.
// Ownership: destroy it before its io_context. Errors: one line of each kind.
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
    // The worker in whose session that process runs; none: it is nobody's here, or gone.
    std::function<std::optional<worker_group::live_worker>(pid_t process)> holder_of;
    // The workers have been asked to end: they have their time for it.
    std::function<bool()> is_ending;
  };

  // Where the environment asks for no timers this does nothing. It gets the path of the pipe, which
  // workers inherit. Without a pipe they find none, as with a launcher that has no timers; a path
  // at which nobody listens would end them. `mark`: of this process alone.
  timer_watch(boost::asio::any_io_executor executor, environment_map& environment,
              const std::string& mark, outside with);
  ~timer_watch();
  timer_watch(const timer_watch&) = delete;
  timer_watch& operator=(const timer_watch&) = delete;

  void begin_round();
  // Whether a timer has ended it.
  void name_timer(const worker_end& end, cause& why) const;

 private:
  void end_by(const workers::expired_timer& timer);

  struct timer_signal {
    int number = 0;
    std::string text;
  };
  outside outside_;
  std::map<pid_t, timer_signal> expired_;  // the last of those workers
  std::unique_ptr<timer_pipe> pipe_;       // none: nobody has asked for it
};

}  // namespace ddprun::launcher
