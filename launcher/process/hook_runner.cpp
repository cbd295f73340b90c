#include "launcher/process/hook_runner.hpp"

#include "launcher/base/write_all.hpp"
#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/post.hpp>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher {
namespace {

// How long a killed command that is stuck in the kernel can delay our exit.
constexpr std::chrono::seconds reap_limit{1};

// Unlike a pipe, a memory file takes all bytes even if nobody reads them, and then ends.
unique_fd input_of(const std::string& text) {
  unique_fd file(::memfd_create("ddprun-event", MFD_CLOEXEC));
  if (file.get() < 0) return file;
  if (write_all(file.get(), text) != 0) return unique_fd();
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string last_line_of(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace

hook_runner::hook_runner(boost::asio::any_io_executor executor, spawner& spawn, log_mux& mux,
                         guardian* guard, hook_options options, say_handler say)
    : executor_(executor),
      spawner_(spawn),
      mux_(mux),
      guardian_(guard),
      options_(std::move(options)),
      say_(std::move(say)),
      queue_(options_.waiting_max),
      limit_(executor),
      end_limit_(executor) {}

hook_runner::~hook_runner() {
  if (pid_ < 0) return;
  spawner_.signal_group(pid_, SIGKILL);
  if (spawner_.reap_within(pid_, reap_limit)) is_over();
}

void hook_runner::say(const std::string& text) {
  say_(options_.name + ": " + text);
}

void hook_runner::run(hook_call call) {
  queue_.offer(std::move(call));
  start_next();
}

void hook_runner::start_next() {
  if (pid_ >= 0) return;
  while (const auto call = queue_.next()) {
    tell_left_out();
    if (start(*call)) return;
  }
  if (!done_) return;
  end_limit_.cancel();
  boost::asio::post(executor_, std::exchange(done_, nullptr));
}

void hook_runner::tell_left_out() {
  const std::uint64_t count = queue_.take_left_out();
  if (count == 0) return;
  say(counted(count, "event") + (count == 1 ? " was" : " were") +
      " left out: the command was busy with those before");
}

void hook_runner::cannot_run(const std::string& why) {
  if (!tell_end_) return say(what_ + ": it cannot be run: " + why);
  boost::asio::post(executor_, [tell = std::exchange(tell_end_, nullptr), why] {
    tell({{}, "it cannot be run: " + why, {}});
  });
}

bool hook_runner::start(const hook_call& call) {
  what_ = call.what;
  tell_end_ = call.ended;
  problem_.clear();
  const unique_fd input = input_of(call.input);
  if (input.get() < 0) {
    cannot_run(std::strerror(errno));
    return false;
  }
  spawn_request request;
  request.program = "/bin/sh";
  request.argv = {"sh", "-c", options_.command};
  request.environment = options_.environment;
  request.standard_input = input.get();
  if (guardian_ != nullptr) request.announce_to = guardian_->announce_fd();
  spawn_handlers handlers;
  handlers.failed = while_alive(alive_.watch(), [this](const start_failure& why) {
    cannot_run(why.describe());
    is_over();
    start_next();
  });
  handlers.ended = while_alive(alive_.watch(), [this](pid_t, exit_status how) { ended(how); });
  auto started = spawner_.spawn(request, std::move(handlers));
  if (!started) {
    cannot_run(started.error().describe());
    return false;
  }
  pid_ = started->pid;
  if (guardian_ != nullptr) guardian_->add(pid_);
  was_killed_ = false;
  outputs_.clear();
  tail_ = std::make_shared<output_tail>();
  for (unique_fd* pipe : {&started->output, &started->errors}) {
    log_mux::source from;
    from.pipe = std::move(*pipe);
    from.route.prefix = options_.prefix;
    from.to = log::output_stream::errors;
    if (tell_end_) from.tap = [tail = tail_](std::string_view bytes) { tail->add(bytes); };
    outputs_.push_back(mux_.add(std::move(from)));
  }
  limit_.expires_after(options_.limit);
  limit_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code cancelled) {
    if (!cancelled) kill("it had not ended after " + to_text(options_.limit));
  }));
  return true;
}

void hook_runner::kill(const std::string& why) {
  if (pid_ < 0 || std::exchange(was_killed_, true)) return;
  problem_ = why;
  if (!tell_end_) say(what_ + ": the command is killed: " + why);
  spawner_.signal_group(pid_, SIGKILL);
}

void hook_runner::is_over() {
  limit_.cancel();
  if (guardian_ != nullptr) guardian_->remove(pid_);
  pid_ = -1;
}

void hook_runner::ended(exit_status status) {
  // Kills what it has left in its group. The group's ID cannot be reused before the reap.
  spawner_.signal_group(pid_, SIGKILL);
  spawner_.reap(pid_);
  is_over();
  // The output so far is passed on, even if another process holds the pipes open.
  for (const log_mux::source_id one : outputs_)
    mux_.release(one);
  if (tell_end_) {
    std::exchange(tell_end_, nullptr)({status, problem_, last_line_of(tail_->text())});
  } else if (!status.success() && !was_killed_) {
    say(what_ + ": the command failed: " + status.describe());
  }
  start_next();
}

void hook_runner::finish(duration limit, std::function<void()> done) {
  done_ = std::move(done);
  end_limit_.expires_after(limit);
  end_limit_.async_wait(
      while_alive(alive_.watch(), [this, limit](boost::system::error_code cancelled) {
        if (cancelled || !done_) return;
        queue_.clear();
        kill("the run is over, and it had " + to_text(limit) + " to end");
        tell_left_out();
        std::exchange(done_, nullptr)();
      }));
  start_next();
}

}  // namespace ddprun::launcher
