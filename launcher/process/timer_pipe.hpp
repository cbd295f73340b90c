// The named pipe on which workers set timers for themselves (timer_request.hpp), and the clock that
// expires them (worker_timers.hpp).
//
// We hold it open for writing, too: so a worker can always open it, and it has no end of file. Only
// this user may write to it. Malformed input costs one line of its kind, and nothing else.
//
// Thread rule: the main thread; handlers are called from the executor, `warn` also from the
// constructor; none is called after destruction. The pipe is removed at the end, if it is still
// ours.
#pragma once

#include "launcher/process/worker_timers.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <set>
#include <string>
#include <sys/types.h>

namespace ddprun::launcher {

class timer_pipe {
 public:
  struct place {
    std::string wanted;  // the user's path; empty: a new name in `folder`
    std::string folder;
    std::string mark;  // unique to this process, for that name
  };
  struct handlers {
    std::function<bool(std::int64_t process)> is_ours;  // true for a live process of a worker
    std::function<void(const workers::expired_timer&)> expired;
    std::function<void(const std::string& line)> warn;
  };

  // Creates the pipe; blocks while the disk does. A pipe that no program reads is replaced, and so
  // is an empty file (mktemp's). Anything else is kept, and the pipe gets a name in `folder`.
  timer_pipe(boost::asio::any_io_executor executor, const place& where, handlers told);
  ~timer_pipe();
  timer_pipe(const timer_pipe&) = delete;
  timer_pipe& operator=(const timer_pipe&) = delete;

  // Empty: it could not be created.
  const std::string& path() const { return path_; }

  // Forgets all timers, because their workers have ended.
  void forget_timers();

 private:
  std::string make(const std::string& path);
  void await_bytes();
  void read();
  void take(const workers::timer_request& request);
  void arm();
  void expire();
  void warn_once(const std::string& kind, const std::string& line);

  handlers told_;
  boost::asio::posix::stream_descriptor pipe_;
  boost::asio::steady_timer timer_;
  std::string path_;
  dev_t device_ = 0;  // of the pipe, to notice if it was replaced
  ino_t number_ = 0;
  workers::timer_stream stream_;
  workers::worker_timers timers_;
  std::optional<time_point> armed_for_;
  std::set<std::string> warned_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
