#include "launcher/nccl/nccl_helper.hpp"

#include "launcher/process/start_failure.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

namespace asio = boost::asio;

namespace ddprun::launcher {
namespace {

// How long a killed helper that is stuck in the kernel can delay our exit.
constexpr std::chrono::seconds end_limit{1};

}  // namespace

struct nccl_helper::process : std::enable_shared_from_this<nccl_helper::process> {
  explicit process(const asio::any_io_executor& executor) : output(executor), limit(executor) {}

  pid_t pid = -1;
  unique_fd input;  // closing it ends the helper
  asio::posix::stream_descriptor output;
  std::string unfinished;  // its incomplete line
  asio::steady_timer limit;
  nccl_answer said;
  std::uint32_t count = 0;
  handler made;
  bool has_waited = false;  // before it was asked: it may have died unseen
  bool has_answered = false;
};

nccl_helper::nccl_helper(asio::any_io_executor executor, spawner& spawn, log_mux& mux,
                         nccl_helper_options options, loss_handler lost)
    : executor_(std::move(executor)),
      spawner_(spawn),
      mux_(mux),
      options_(std::move(options)),
      lost_(std::move(lost)),
      next_(executor_) {}

nccl_helper::~nccl_helper() {
  end(waiting_);
  end(of_round_);
  // Helpers of earlier rounds may still be exiting: one with many ids has much to free.
  const auto until = std::chrono::steady_clock::now() + end_limit;
  bool is_reaped = true;
  std::vector<pid_t> groups;
  for (const auto& pid : running_) {
    if (*pid > 0) groups.push_back(*pid);
  }
  for (const pid_t pid : groups)
    is_reaped &= spawner_.reap_within(pid, until - std::chrono::steady_clock::now());
  // One of them may have started a Python in its process group.
  while (is_reaped && !groups.empty() && !spawner_.living_groups(groups).empty() &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void nccl_helper::warm_up() {
  // A failed start is reported only to make(); the next start may succeed.
  if (!waiting_ || waiting_->pid <= 0) waiting_ = start();
}

void nccl_helper::make(std::uint32_t count, handler made) {
  end(of_round_);
  const bool has_waited = waiting_ && waiting_->pid > 0;
  warm_up();
  waiting_->has_waited = has_waited;
  ask(std::exchange(waiting_, nullptr), count, std::move(made));
}

void nccl_helper::ask(std::shared_ptr<process> whom, std::uint32_t count, handler made) {
  of_round_ = std::move(whom);
  process& asked = *of_round_;
  asked.count = count;
  asked.made = std::move(made);
  const std::string line = std::to_string(count) + "\n";
  const bool is_there = asked.pid > 0;
  const bool is_taken = is_there && ::write(asked.input.get(), line.data(), line.size()) >= 0;
  // On EPIPE the helper is gone, and its end or failed start is about to be reported.
  if (is_there && !is_taken && errno != EPIPE) {
    asked.said.problem = std::string("it cannot be written to: ") + std::strerror(errno);
  }
  if (!asked.said.problem.empty()) {
    asio::post(executor_, while_alive(of_round_, [this, &asked] {
                 if (!ask_another(asked)) answer(asked);
               }));
    return;
  }
  asked.limit.expires_after(options_.limit);
  asked.limit.async_wait(while_alive(of_round_, [this, &asked](error_code error) {
    if (error) return;
    asked.said.problem = "it has not answered for " + to_text(options_.limit);
    answer(asked);
  }));
}

// A helper that died while it waited does not mean that the next one fails: try once more.
bool nccl_helper::ask_another(process& dead) {
  if (!dead.has_waited || !dead.made || &dead != of_round_.get()) return false;
  const auto held = std::exchange(of_round_, nullptr);
  dead.limit.cancel();
  ask(start(), dead.count, std::exchange(dead.made, nullptr));
  return true;
}

void nccl_helper::let_go() {
  end(of_round_);
}

std::shared_ptr<nccl_helper::process> nccl_helper::start() {
  auto made = std::make_shared<process>(executor_);
  auto input = make_pipe();
  if (!input) {
    made->said.problem = "it cannot be started: " + input.error().message();
    return made;
  }
  spawn_request request;
  request.program = options_.program;
  request.argv = {options_.program};
  request.argv.insert(request.argv.end(), options_.arguments.begin(), options_.arguments.end());
  request.environment = options_.environment;
  request.standard_input = input->read.get();
  const std::weak_ptr<process> alive = made;
  spawn_handlers handlers;
  const auto running = std::make_shared<pid_t>(-1);
  handlers.failed = [this, alive, running](const start_failure& why) {
    *running = -1;
    const auto one = alive.lock();
    if (!one) return;
    one->pid = -1;
    one->said.problem = why.describe();
    if (one->made && !ask_another(*one)) answer(*one);
  };
  handlers.ended = [this, alive, running, &spawn = spawner_](pid_t pid, exit_status status) {
    spawn.reap(pid);
    *running = -1;
    if (const auto over = alive.lock()) ended(*over, status);
  };
  auto started = spawner_.spawn(request, std::move(handlers));
  if (!started) {
    made->said.problem = started.error().describe();
    return made;
  }
  made->pid = started->pid;
  *running = made->pid;
  std::erase_if(running_, [](const auto& pid) { return *pid < 0; });
  running_.push_back(running);
  made->input = std::move(input->write);
  set_nonblocking(started->output.get());
  error_code error;
  made->output.assign(started->output.get(), error);
  if (error) {
    made->said.problem = "its output cannot be read: " + error.message();
    spawner_.signal_group(made->pid, SIGKILL);
    made->pid = -1;
    return made;
  }
  started->output.release();
  log_mux::source errors;
  errors.pipe = std::move(started->errors);
  errors.route.prefix = options_.prefix;
  errors.to = log::output_stream::errors;
  mux_.add(std::move(errors));
  listen(made);
  return made;
}

void nccl_helper::listen(const std::shared_ptr<process>& from) {
  from->output.async_wait(
      asio::posix::stream_descriptor::wait_read,
      while_alive(from->weak_from_this(), [this, &one = *from](error_code error) {
        if (error) return;
        std::array<char, 4096> bytes;
        const ssize_t count = ::read(one.output.native_handle(), bytes.data(), bytes.size());
        if (count == 0) return;  // the spawner reports its end
        if (count > 0) one.unfinished.append(bytes.data(), static_cast<std::size_t>(count));
        const auto held = one.shared_from_this();
        std::size_t newline;
        while ((newline = one.unfinished.find('\n')) != std::string::npos) {
          const std::string line = one.unfinished.substr(0, newline);
          one.unfinished.erase(0, newline + 1);
          hear(one, line);
        }
        if (count > 0 || errno == EAGAIN || errno == EINTR) listen(held);
      }));
}

void nccl_helper::hear(process& from, const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string word = line.substr(0, space);
  std::string rest = space == std::string::npos ? std::string() : line.substr(space + 1);
  if (word == "version") {
    from.said.version = static_cast<std::uint32_t>(std::strtoul(rest.c_str(), nullptr, 10));
  } else if (word == "library") {
    options_.arguments = {"--library", std::move(rest)};  // saves the next one the search
  } else if (word == "address") {
    from.said.address = std::move(rest);
  } else if (word == "id") {
    from.said.ids.push_back(std::move(rest));
  } else if (word == "problem") {
    from.said.problem = std::move(rest);
    answer(from);
  } else if (word == "end") {
    answer(from);
  }
}

// Answers once. Ids from before a problem are useless, because their listeners end with the
// process.
void nccl_helper::answer(process& from) {
  from.limit.cancel();
  nccl_answer what = std::exchange(from.said, {});
  from.has_answered = what.problem.empty();
  if (!from.has_answered) {
    what = {{}, 0, {}, std::move(what.problem)};
  } else {
    next_.expires_after(options_.pause);
    next_.async_wait(while_alive(alive_.watch(), [this](error_code error) {
      if (!error) warm_up();
    }));
  }
  if (const handler made = std::exchange(from.made, nullptr)) made(std::move(what));
}

void nccl_helper::ended(process& over, exit_status status) {
  over.pid = -1;
  if (&over == waiting_.get()) return waiting_.reset();  // the next one reports what is wrong
  if (ask_another(over)) return;
  const auto held = std::exchange(of_round_, nullptr);
  if (held->has_answered) return lost_(status.describe());
  if (held->said.problem.empty()) held->said.problem = "it has ended: " + status.describe();
  answer(*held);
}

void nccl_helper::end(std::shared_ptr<process>& one) {
  const auto over = std::exchange(one, nullptr);
  if (over && over->pid > 0) spawner_.signal_group(over->pid, SIGKILL);
}

}  // namespace ddprun::launcher
