#include "launcher/hosts/ssh/host_discovery.hpp"

#include "rendezvous/base/time.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/post.hpp>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::string_view blanks = " \t\r\n";

// The last line on standard error that is not blank.
std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(blanks);
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const std::size_t before = text.rfind('\n');
  return std::string(before == std::string_view::npos ? text : text.substr(before + 1));
}

}  // namespace

cli::parsed<std::vector<std::string>> discovery_command(std::string_view given,
                                                        const std::string& script) {
  using words = std::vector<std::string>;
  struct stat about {};
  const bool is_file = ::stat(script.c_str(), &about) == 0 && S_ISREG(about.st_mode);
  if (is_file && ::access(script.c_str(), X_OK) != 0) {
    return cli::wrong(given, "this file may not be executed; chmod +x it");
  }
  const bool has_folder = script.find('/') != std::string::npos;
  if (is_file) {
    return {boost::system::in_place_value, words{has_folder ? script : "./" + script}};
  }
  if (script.find_first_not_of(blanks) == std::string::npos)
    return cli::wrong(given, "write a program that prints the hosts");
  if (has_folder && script.find_first_of(" \t\n$~*?\"'`|&;<>()\\") == std::string::npos)
    return cli::wrong(given, "there is no such file");
  return {boost::system::in_place_value, words{"/bin/sh", "-c", script}};
}

host_discovery::host_discovery(boost::asio::any_io_executor executor, spawner& spawn,
                               std::vector<std::string> command,
                               std::vector<std::string> environment, handler heard,
                               std::chrono::milliseconds limit)
    : executor_(executor),
      spawner_(spawn),
      command_(std::move(command)),
      environment_(std::move(environment)),
      heard_(std::move(heard)),
      limit_(limit),
      output_(executor),
      errors_(executor),
      timer_(executor) {}

host_discovery::~host_discovery() {
  stop();
}

void host_discovery::start() {
  boost::asio::post(executor_, while_alive(alive_.watch(), [this] { run(); }));
}

void host_discovery::stop() {
  alive_.end();
  timer_.cancel();
  boost::system::error_code ignored;
  output_.close(ignored);
  errors_.close(ignored);
  if (pid_ <= 0 || !spawner_.owns(pid_)) return;
  spawner_.signal_group(pid_, SIGKILL);
  spawner_.reap_within(std::exchange(pid_, -1), std::chrono::seconds(1));
}

void host_discovery::run() {
  text_.clear();
  error_text_.clear();
  why_killed_.clear();
  const unique_fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  spawn_request request;
  request.program = command_.front();
  request.argv = command_;
  request.environment = environment_;
  request.standard_input = nothing.get();
  spawn_handlers handlers;
  handlers.executed = [] {};
  handlers.failed = while_alive(alive_.watch(), [this](const start_failure& why) {
    pid_ = -1;
    finish("cannot be started: " + why.describe());
  });
  handlers.ended = while_alive(alive_.watch(), [this](pid_t, exit_status status) { over(status); });
  auto child = spawner_.spawn(request, std::move(handlers));
  if (child.has_error()) return finish("cannot be started: " + child.error().describe());
  pid_ = child->pid;
  for (auto [pipe, to] : {std::pair(&child->output, &output_), {&child->errors, &errors_}}) {
    set_nonblocking(pipe->get());
    to->assign(pipe->release());
  }
  take(output_, text_);
  take(errors_, error_text_);
  limit_time();
}

// Waits for input, so that the loop never blocks in a read.
void host_discovery::take(boost::asio::posix::stream_descriptor& from, std::string& to) {
  from.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                  while_alive(alive_.watch(), [this, &from, &to](boost::system::error_code error) {
                    if (error || !read_some(from, to)) return;
                    if (text_.size() <= discovered_bytes_max) return take(from, to);
                    why_killed_ = "prints more than a megabyte";
                    kill();
                  }));
}

// Returns false at the end of the output.
bool host_discovery::read_some(boost::asio::posix::stream_descriptor& from, std::string& to) {
  if (!from.is_open()) return false;
  char bytes[4096];
  const ssize_t count = ::read(from.native_handle(), bytes, sizeof bytes);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  // Only the end of standard error matters.
  if (&to == &error_text_ && to.size() > sizeof bytes) to.clear();
  to.append(bytes, static_cast<std::size_t>(count));
  return count > 0;
}

void host_discovery::limit_time() {
  timer_.expires_after(limit_);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (error || pid_ <= 0) return;
    why_killed_ = "has not ended after " + to_text(limit_) + ", and was stopped";
    kill();
  }));
}

void host_discovery::kill() {
  if (pid_ > 0) spawner_.signal_group(pid_, SIGKILL);
}

// Processes that it has left running hold its outputs open, so read what is there and end them too.
void host_discovery::over(const exit_status& status) {
  for (auto [from, to] : {std::pair(&output_, &text_), {&errors_, &error_text_}}) {
    for (std::size_t before = std::string::npos; before != to->size();) {
      before = to->size();
      if (before > discovered_bytes_max || !read_some(*from, *to)) break;
    }
  }
  kill();
  spawner_.reap(std::exchange(pid_, -1));
  std::string problem = why_killed_;
  if (problem.empty() && !status.success()) {
    const std::string said = last_line(error_text_);
    problem = "ended with " + status.describe() + (said.empty() ? "" : ": " + said);
  }
  finish(std::move(problem));
}

void host_discovery::finish(std::string problem) {
  timer_.cancel();
  boost::system::error_code ignored;
  output_.close(ignored);
  errors_.close(ignored);
  const auto alive = alive_.watch();
  heard_({std::move(text_), std::move(problem)});
  if (!alive.expired()) ask_later();
}

void host_discovery::ask_later() {
  timer_.expires_after(discovery_interval);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (!error) run();
  }));
}

}  // namespace ddprun::launcher::ssh
