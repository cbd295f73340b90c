#include "launcher/process/timer_pipe.hpp"

#include "rendezvous/base/unique_fd.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// Large enough that workers can write while this process is delayed.
constexpr int pipe_bytes = 1 << 20;
// Read in one turn, so that a writer without end starves nothing else.
constexpr std::size_t turn_bytes_max = 1 << 20;

using clock = std::chrono::steady_clock;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_read_by_nobody(const std::string& path) {
  const unique_fd pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  return pipe.get() < 0 && errno == ENXIO;
}

// Returns why the path cannot be used; empty: it is free now.
std::string make_room(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) return errno == ENOENT ? "" : std::strerror(errno);
  const bool is_pipe = S_ISFIFO(facts.st_mode);
  const bool is_empty_file = S_ISREG(facts.st_mode) && facts.st_size == 0;
  if (!is_pipe && !is_empty_file) return "something else has that name";
  if (is_pipe && !is_read_by_nobody(path)) return "another program reads a pipe of that name";
  return ::unlink(path.c_str()) == 0 ? "" : std::strerror(errno);
}

}  // namespace

timer_pipe::timer_pipe(boost::asio::any_io_executor executor, const place& where, handlers told)
    : told_(std::move(told)), pipe_(executor), timer_(executor) {
  const std::string own = where.folder + "/watchdog_timer_" + where.mark;
  std::string problem = make(where.wanted.empty() ? own : where.wanted);
  if (!problem.empty() && !where.wanted.empty()) {
    const std::string line = "TORCHELASTIC_TIMER_FILE=" + where.wanted + ": " + problem;
    problem = make(own);
    if (problem.empty()) told_.warn(line + "; the workers' timers are set by " + own);
  }
  if (problem.empty()) {
    await_bytes();
  } else {
    told_.warn("no timer of torch.distributed.elastic can expire, because no pipe can be made: " +
               own + ": " + problem);
  }
}

timer_pipe::~timer_pipe() {
  struct stat facts {};
  if (path_.empty() || ::lstat(path_.c_str(), &facts) != 0) return;
  // Another launcher may have replaced the pipe by its own.
  if (facts.st_dev == device_ && facts.st_ino == number_) ::unlink(path_.c_str());
}

std::string timer_pipe::make(const std::string& path) {
  if (std::string problem = make_room(path); !problem.empty()) return problem;
  if (::mkfifo(path.c_str(), 0600) != 0) return std::strerror(errno);
  unique_fd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts {};
  if (pipe.get() < 0 || ::fstat(pipe.get(), &facts) != 0) {
    const std::string problem = std::strerror(errno);
    ::unlink(path.c_str());
    return problem;
  }
  ::fcntl(pipe.get(), F_SETPIPE_SZ, pipe_bytes);
  device_ = facts.st_dev;
  number_ = facts.st_ino;
  pipe_.assign(pipe.release());
  path_ = path;
  return {};
}

void timer_pipe::forget_timers() {
  timers_.clear();
  arm();
}

void timer_pipe::await_bytes() {
  pipe_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   while_alive(alive_.watch(), [this](boost::system::error_code error) {
                     if (error) return;
                     read();
                     arm();
                     await_bytes();
                   }));
}

void timer_pipe::read() {
  std::array<char, 65536> bytes{};
  for (std::size_t sum = 0; sum < turn_bytes_max;) {
    const ssize_t size = ::read(pipe_.native_handle(), bytes.data(), bytes.size());
    if (size <= 0) return;
    sum += static_cast<std::size_t>(size);
    const auto heard = stream_.read({bytes.data(), static_cast<std::size_t>(size)});
    for (const workers::timer_request& request : heard.requests)
      take(request);
    if (!heard.problem.empty()) warn_once("garbage", "ignored " + heard.problem);
  }
}

void timer_pipe::take(const workers::timer_request& request) {
  // A release is always taken, because its process may be ending.
  if (request.expires_at >= 0 && !told_.is_ours(request.process)) {
    return warn_once("stranger", "ignored a timer of process " + std::to_string(request.process) +
                                     ", which is not a worker of this node");
  }
  if (timers_.take(request, clock::now(), unix_now())) return;
  // Timers of dead processes make room.
  timers_.keep_if(told_.is_ours);
  if (timers_.take(request, clock::now(), unix_now())) return;
  warn_once("many", "ignored a timer, as there are " +
                        std::to_string(workers::worker_timers::count_max) + " already");
}

void timer_pipe::arm() {
  const auto due = timers_.next_deadline();
  if (due == armed_for_) return;
  armed_for_ = due;
  timer_.cancel();
  if (!due) return;
  timer_.expires_at(*due);
  timer_.async_wait(while_alive(alive_.watch(), [this, due](boost::system::error_code error) {
    if (!error && armed_for_ == due) expire();
  }));
}

// The pipe is read first, because a message in it may release an expired timer.
void timer_pipe::expire() {
  armed_for_.reset();
  read();
  const auto expired = timers_.expire(clock::now());
  arm();
  const auto alive = alive_.watch();
  const auto tell = told_.expired;
  for (const workers::expired_timer& one : expired) {
    tell(one);
    if (alive.expired()) return;
  }
}

void timer_pipe::warn_once(const std::string& kind, const std::string& line) {
  if (warned_.insert(kind).second) told_.warn(path_ + ": " + line);
}

}  // namespace ddprun::launcher
