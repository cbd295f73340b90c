#include "launcher/hosts/ssh/host_link.hpp"

#include "launcher/process/find_program.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include <csignal>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

constexpr std::size_t kept_lines_max = 8;
constexpr auto outputs_limit = std::chrono::seconds(1);

void keep_last(std::vector<std::string>& lines, std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (lines.size() == kept_lines_max) lines.erase(lines.begin());
  lines.emplace_back(line.substr(0, line.find_last_not_of("\r") + 1));
}

}  // namespace

host_link::host_link(boost::asio::any_io_executor executor, spawner& spawn, log::writer& out,
                     std::size_t host, std::string magic, handlers told)
    : executor_(executor),
      spawner_(spawn),
      writer_(out),
      host_(host),
      magic_(std::move(magic)),
      told_(std::move(told)),
      input_(executor),
      timer_(executor) {}

host_link::~host_link() {
  if (pid_ <= 0 || !spawner_.owns(pid_)) return;
  spawner_.signal_group(pid_, SIGKILL);
  spawner_.reap(pid_);
}

void host_link::start(const std::vector<std::string>& words,
                      const std::vector<std::string>& environment) {
  const auto fail = [this](const std::string& why) {
    end_.last_errors = {why};
    boost::asio::post(executor_, while_alive(alive_.watch(), [this] { told_.ended(end_); }));
  };
  auto ends = make_pipe();
  if (!ends) return fail("no pipe for ssh: " + ends.error().message());
  spawn_request request;
  request.program = find_program(words.front(), environment).value_or("");
  if (request.program.empty()) return fail("there is no ssh on this host; install it");
  request.argv = words;
  request.environment = environment;
  request.standard_input = ends->read.get();
  // The head passes on the signals that it gets. An ssh with a signal handler of its own would die
  // of them, and the host or its agent's last words would be lost. ssh leaves a signal alone that
  // is ignored when it starts.
  request.ignores_signals_to_all = true;
  spawn_handlers handlers;
  handlers.executed = [] {};
  handlers.failed = while_alive(alive_.watch(), [this](const start_failure& why) {
    pid_ = -1;
    end_.last_errors = {"ssh cannot be started: " + why.describe()};
    part_ended();
  });
  handlers.ended = while_alive(alive_.watch(), [this](pid_t pid, exit_status status) {
    // A ProxyCommand of this ssh may still run.
    spawner_.signal_group(pid, SIGKILL);
    spawner_.reap(pid);
    pid_ = -1;
    end_.status = status;
    const auto alive = alive_.watch();
    part_ended();
    if (!alive.expired()) look_at_outputs();
  });
  auto child = spawner_.spawn(request, std::move(handlers));
  if (child.has_error()) return fail("ssh cannot be started: " + child.error().describe());
  pid_ = child->pid;
  parts_left_ = 3;
  set_nonblocking(ends->write.get());
  input_.assign(ends->write.release());
  output_ = std::make_unique<host_stream>(
      executor_, writer_, log::output_stream::output, 2 * host_ + 1, magic_,
      std::move(child->output),
      host_stream::handlers{[this](std::string_view line) { return take_output(line); },
                            [this] { part_ended(); }});
  errors_ = std::make_unique<host_stream>(
      executor_, writer_, log::output_stream::errors, 2 * host_ + 2, magic_,
      std::move(child->errors),
      host_stream::handlers{[this](std::string_view line) { return take_errors(line); },
                            [this] { part_ended(); }});
}

void host_link::let_pass() {
  if (output_) output_->let_pass();
  if (errors_) errors_->let_pass();
}

void host_link::resume(log::output_stream stream) {
  const auto& one = stream == log::output_stream::output ? output_ : errors_;
  if (one) one->resume();
}

void host_link::signal(int number) {
  if (pid_ > 0) spawner_.signal_group(pid_, number);
}

bool host_link::take_marked(std::string_view line) {
  if (!line.starts_with(magic_ + " ")) return false;
  line.remove_prefix(magic_.size() + 1);
  const std::size_t blank = line.find(' ');
  const std::string_view rest = blank == std::string_view::npos ? "" : line.substr(blank + 1);
  has_spoken_ = true;
  told_.told(line.substr(0, blank), rest);
  return true;
}

bool host_link::take_output(std::string_view line) {
  if (take_marked(line)) return true;
  if (!has_spoken_) keep_last(end_.before_magic, line);
  return false;
}

bool host_link::take_errors(std::string_view line) {
  if (take_marked(line) || told_.take_error(line)) return true;
  keep_last(end_.last_errors, line);
  return false;
}

void host_link::send(std::string bytes) {
  if (!input_.is_open() || closes_input_) return;
  to_write_.push_back(std::move(bytes));
  if (to_write_.size() == 1) write_next();
}

void host_link::close_input() {
  closes_input_ = true;
  if (to_write_.empty() && input_.is_open()) input_.close();
}

void host_link::write_next() {
  boost::asio::async_write(
      input_, boost::asio::buffer(to_write_.front()),
      while_alive(alive_.watch(), [this](boost::system::error_code error, std::size_t) {
        if (error) {
          to_write_.clear();
          if (input_.is_open()) input_.close();
          return;
        }
        to_write_.pop_front();
        if (!to_write_.empty()) return write_next();
        if (closes_input_) input_.close();
      }));
}

std::uint64_t host_link::bytes_read() const {
  return output_->bytes_read() + errors_->bytes_read();
}

// The limit starts anew as long as output arrives, or waits here because the writer has no room.
void host_link::end_within(std::chrono::seconds limit) {
  if (pid_ <= 0) return;
  timer_.expires_after(limit);
  timer_.async_wait(while_alive(
      alive_.watch(), [this, limit, before = bytes_read()](boost::system::error_code error) {
        if (!error) end_if_idle(before, limit);
      }));
}

void host_link::end_if_idle(std::uint64_t bytes_before, std::chrono::seconds limit) {
  if (pid_ <= 0) return;  // look_at_outputs uses the timer now
  if (bytes_read() != bytes_before || !output_->is_idle() || !errors_->is_idle())
    return end_within(limit);
  signal(SIGHUP);
  timer_.expires_after(outputs_limit);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (!error) signal(SIGKILL);
  }));
}

// A shared connection (ControlPersist) outlives its ssh and keeps the outputs open, so their end
// never comes.
void host_link::look_at_outputs() {
  timer_.expires_after(outputs_limit);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (error) return;
    const auto alive = alive_.watch();
    for (const auto* const one : {&output_, &errors_}) {
      if ((*one)->give_up_if_idle()) part_ended();
      if (alive.expired()) return;
    }
    look_at_outputs();
  }));
}

void host_link::part_ended() {
  // Moved out first: the handler may destroy this link, and with it the function that runs.
  if (--parts_left_ > 0) return;
  const auto ended = std::move(told_.ended);
  ended(end_);
}

}  // namespace ddprun::launcher::ssh
