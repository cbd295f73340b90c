#include "launcher/process/guardian.hpp"

#include "launcher/process/guardian_process.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace asio = boost::asio;

namespace ddprun::launcher {
namespace {

constexpr int starts_max = 10;  // more than an accident: something keeps killing it
constexpr int farewell_wait_ms = 200;
// A guardian that has read nothing for so long, at so many beats in a row, stands still itself.
constexpr auto deaf_after = std::chrono::seconds(3);
constexpr int deaf_beats = 3;

std::string to_bytes(const guardian_message& message) {
  return {reinterpret_cast<const char*>(&message), sizeof(message)};
}

std::string to_bytes(guardian_verb word, const std::string& body) {
  return to_bytes({word, 0, 0, static_cast<std::uint32_t>(body.size())}) + body;
}

bool is_beat(const std::string& bytes) {
  guardian_message message{};
  std::memcpy(&message, bytes.data(), sizeof(message));
  return message.word == guardian_verb::beat;
}

std::int64_t to_nanoseconds(duration value) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(value).count();
}

}  // namespace

struct guardian::link {
  link(const asio::any_io_executor& executor, pid_t process, unique_fd write_end,
       unique_fd read_end)
      : pid(process), pipe(executor, write_end.release()), answers(std::move(read_end)) {
    // Only the guardian has the other ends, so O_NONBLOCK affects no other process.
    set_nonblocking(pipe.native_handle());
    set_nonblocking(answers.get());
  }

  // Called at a beat: a running guardian has read all earlier messages long ago.
  bool is_deaf(time_point now) {
    int unread = 0;
    if (::ioctl(pipe.native_handle(), FIONREAD, &unread) != 0 || unread == 0) {
      unheard_beats = 0;
      return false;
    }
    if (unheard_beats++ == 0) unheard_since = now;
    return unheard_beats > deaf_beats && now - unheard_since >= deaf_after;
  }

  pid_t pid;
  asio::posix::stream_descriptor pipe;
  unique_fd answers;
  int unheard_beats = 0;
  time_point unheard_since;
  std::deque<std::string> backlog;  // messages that did not fit into the pipe
};

guardian_process start_guardian() {
  // If the guardian was killed, writing to its pipe must not kill the agent.
  ::signal(SIGPIPE, SIG_IGN);
  guardian_process started;
  auto pipe = make_pipe();
  auto answers = make_pipe();
  if (!pipe || !answers) {
    started.error = (pipe ? answers : pipe).error().value();
    return started;
  }
  // The guardian first ignores the signals, and then unblocks them.
  const signals_blocked blocked;
  started.pid = ::fork();
  if (started.pid == 0) {
    pipe->write.reset();
    run_guardian(pipe->read.get(), answers->write.get());
  }
  if (started.pid < 0) {
    started.error = errno;
  } else {
    started.death_pipe = std::move(pipe->write);
    started.answers = std::move(answers->read);
  }
  return started;
}

guardian::guardian(asio::any_io_executor executor, spawner& spawn, guardian_process process,
                   say_handler say)
    : executor_(std::move(executor)), spawner_(spawn), say_(std::move(say)) {
  if (process.pid < 0) {
    if (process.error != 0) {
      say_(std::string("the guardian could not be forked: ") + std::strerror(process.error));
    }
    start_again();
    return;
  }
  link_ = std::make_shared<link>(executor_, process.pid, std::move(process.death_pipe),
                                 std::move(process.answers));
  spawner_.adopt(process.pid, while_alive(std::weak_ptr(link_),
                                          [this](pid_t, exit_status status) { lost(status); }));
}

guardian::~guardian() = default;

bool guardian::started() const {
  return link_ != nullptr;
}

pid_t guardian::pid() const {
  return link_ ? link_->pid : -1;
}

int guardian::announce_fd() const {
  return link_ ? link_->pipe.native_handle() : -1;
}

void guardian::add(pid_t group) {
  groups_.insert(group);
  send(to_bytes(add_group_message(group)));
}

void guardian::remove(pid_t group) {
  groups_.erase(group);
  send(to_bytes({guardian_verb::remove, group, 0, 0}));
}

void guardian::mark(const std::string& entry) {
  mark_message_ = to_bytes(guardian_verb::mark, entry);
  send(mark_message_);
}

void guardian::cgroup(const std::string& path) {
  if (path.empty() || path.size() > guardian_tell_bytes_max) return;
  cgroup_message_ = to_bytes(guardian_verb::cgroup, path);
  send(cgroup_message_);
}

void guardian::beat(std::optional<time_point> until, duration grace) {
  guardian_limit_body body{};
  if (until) body = {to_nanoseconds(until->time_since_epoch()), to_nanoseconds(grace)};
  beat_message_ =
      to_bytes(guardian_verb::beat, {reinterpret_cast<const char*>(&body), sizeof(body)});
  if (!link_) return;
  if (link_->is_deaf(std::chrono::steady_clock::now())) {
    link_->unheard_beats = 0;
    say_("the guardian does not read its pipe (is it stopped?): it is replaced");
    ::kill(link_->pid, SIGKILL);
    return;  // lost() starts a new one, which gets all information
  }
  // Of several beats that did not fit into the pipe only the newest counts.
  if (link_->backlog.size() > 1 && is_beat(link_->backlog.back())) link_->backlog.pop_back();
  send(beat_message_);
}

void guardian::hear_answers() {
  guardian_answer answer;
  while (link_ && ::read(link_->answers.get(), &answer, sizeof(answer)) == sizeof(answer)) {
    if (answer.kind == guardian_word_kind::strikes) {
      has_struck_ = true;
    } else {
      signals_.guardian_heard(answer.signal, time_point(std::chrono::nanoseconds(answer.at_ns)));
    }
  }
}

bool guardian::take_strike() {
  hear_answers();
  return std::exchange(has_struck_, false);
}

bool guardian::take_signal(int signal, time_point heard) {
  hear_answers();
  return signals_.take(signal, heard, std::chrono::steady_clock::now());
}

bool guardian::tell(const std::string& address, std::uint16_t port, const std::string& bytes,
                    tell_terms terms) {
  const std::string body = address + '\0' + bytes;
  if (body.size() > guardian_tell_bytes_max) return false;
  const std::int32_t sum = (terms.until_strike ? tell_until_strike : 0) +
                           (terms.unless_refused ? tell_unless_refused : 0);
  tell_message_ =
      to_bytes({guardian_verb::tell, sum, port, static_cast<std::uint32_t>(body.size())}) + body;
  send(tell_message_);
  return true;
}

void guardian::farewell(const std::function<void()>& meanwhile) {
  if (!link_) return meanwhile();
  const std::shared_ptr<link> leaving = std::move(link_);
  const auto bytes = to_bytes({guardian_verb::farewell, 0, 0, 0});
  const auto written = ::write(leaving->pipe.native_handle(), bytes.data(), bytes.size());
  meanwhile();
  const unique_fd handle(static_cast<int>(::syscall(SYS_pidfd_open, leaving->pid, 0)));
  const auto ended = [&handle] {
    pollfd entry{handle.get(), POLLIN, 0};
    return ::poll(&entry, 1, farewell_wait_ms) > 0;
  };
  // A guardian that does not read (stopped, or behind) must not act later on what it knew before.
  if (written >= 0 && ended()) return spawner_.reap(leaving->pid);
  ::kill(leaving->pid, SIGKILL);
  if (ended()) spawner_.reap(leaving->pid);
}

void guardian::lost(exit_status status) {
  spawner_.reap(link_->pid);
  link_.reset();
  if (starts_ >= starts_max) {
    say_("the guardian ended again (" + status.describe() +
         "); going on without one: if ddprun is killed, children of workers may be left");
    return;
  }
  say_("the guardian ended (" + status.describe() + "); starting it again");
  start_again();
}

void guardian::start_again() {
  ++starts_;
  auto pipe = make_pipe();
  auto answers = make_pipe();
  if (!pipe || !answers) {
    say_("the guardian cannot be started: " + (pipe ? answers : pipe).error().message());
    return;
  }
  spawn_request request;
  request.argv = {"/proc/self/exe", guardian_argument};
  // The forked guardian has the same environment.
  for (char** entry = environ; *entry != nullptr; ++entry)
    request.environment.emplace_back(*entry);
  request.capture = false;
  request.standard_input = pipe->read.get();
  request.standard_output = answers->write.get();
  request.outlives_us = true;
  const auto next =
      std::make_shared<link>(executor_, -1, std::move(pipe->write), std::move(answers->read));
  spawn_handlers handlers;
  handlers.failed = while_alive(std::weak_ptr(next), [this](const start_failure& why) {
    link_.reset();
    say_("the guardian cannot be started: " + why.describe());
  });
  handlers.ended =
      while_alive(std::weak_ptr(next), [this](pid_t, exit_status status) { lost(status); });
  auto started = spawner_.spawn(request, std::move(handlers));
  if (!started) {
    say_("the guardian cannot be started: " + started.error().describe());
    return;
  }
  // It reads the messages once it has executed.
  link_ = next;
  link_->pid = started->pid;
  for (const pid_t group : groups_)
    send(to_bytes(add_group_message(group)));
  for (const std::string* message :
       {&tell_message_, &mark_message_, &cgroup_message_, &beat_message_}) {
    if (!message->empty()) send(*message);
  }
}

void guardian::send(std::string bytes) {
  if (!link_) return;
  const bool idle = link_->backlog.empty();
  link_->backlog.push_back(std::move(bytes));
  if (idle) flush();
}

void guardian::flush() {
  while (!link_->backlog.empty()) {
    const std::string& next = link_->backlog.front();
    if (::write(link_->pipe.native_handle(), next.data(), next.size()) < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return;  // it is dead: lost() starts a new one
      link_->pipe.async_wait(asio::posix::stream_descriptor::wait_write,
                             while_alive(std::weak_ptr(link_), [this](error_code error) {
                               if (!error) flush();
                             }));
      return;
    }
    link_->backlog.pop_front();
  }
}

}  // namespace ddprun::launcher
