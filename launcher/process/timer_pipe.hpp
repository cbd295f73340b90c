// The named pipe on which workers set timers for themselves (timer_request.hpp), and the clock that
// expires them (worker_timers.hpp).
//
// It is held open for writing, too: a worker that opens it is never refused, and no end is ever
// read. Who may write to it is this user alone. What makes no sense on it costs one line of its
// kind, and nothing else.
//
// Thread rule: the main thread; handlers come from the executor, `warn` also from the constructor;
// after destruction none does. It is removed in the end, where it is still ours.
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
    std::string wanted;  // by the person; empty: a new name in `folder`
    std::string folder;
    std::string mark;  // of this process alone, for that name
  };
  struct handlers {
    std::function<bool(std::int64_t process)> is_ours;  // one of the workers', that lives
    std::function<void(const workers::expired_timer&)> expired;
    std::function<void(const std::string& line)> warn;
  };

  // Makes the pipe; blocks while the disk does. One that no program reads is replaced, and an empty
  // file (mktemp's). Anything else stays as it is, and the pipe has a name in `folder`.
  timer_pipe(boost::asio::any_io_executor executor, const place& where, handlers told);
  ~timer_pipe();
  timer_pipe(const timer_pipe&) = delete;
  timer_pipe& operator=(const timer_pipe&) = delete;

  // Empty: none could be made.
  const std::string& path() const { return path_; }

  // Those of workers that have ended.
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
  dev_t device_ = 0;  // of the pipe: another one may have come to its place
  ino_t number_ = 0;
  workers::timer_stream stream_;
  workers::worker_timers timers_;
  std::optional<time_point> armed_for_;
  std::set<std::string> warned_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
