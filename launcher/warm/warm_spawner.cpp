#include "launcher/warm/warm_spawner.hpp"

#include "launcher/warm/memory_file.hpp"
#include "rendezvous/base/time.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace asio = boost::asio;

namespace ddprun::launcher::warm {
namespace {

// How long a killed process that is stuck in the kernel can delay our exit.
constexpr std::chrono::seconds end_limit{1};
// A worker that fails sooner may fail because it was started warm.
constexpr std::chrono::seconds early{1};

void put(std::string& to, std::string_view part) {
  to += part;
  to += '\0';
}

std::string local_rank_of(const spawn_request& request) {
  for (const std::string& entry : request.environment) {
    if (entry.starts_with("LOCAL_RANK=")) return entry;
  }
  return {};
}

// Must match the parser in ddprun_process.py.
std::string work_of(const spawn_request& request, const std::string& record,
                    const std::string& site) {
  std::string work;
  put(work, request.program.empty() ? request.argv.front() : request.program);
  std::string processors;
  for (const int number : request.processors)
    processors += (processors.empty() ? "" : ",") + std::to_string(number);
  put(work, processors);
  put(work, record);
  put(work, site);
  put(work, std::to_string(request.argv.size()));
  for (const std::string& word : request.argv)
    put(work, word);
  for (const std::string& entry : request.environment)
    put(work, entry);
  return work;
}

}  // namespace

struct warm_spawner::worker : std::enable_shared_from_this<warm_spawner::worker> {
  // What its spare is sent.
  struct order {
    unique_fd to;
    unique_fd work, output, errors, report;

    error_code send(const std::string& why_cold) const {
      const std::string word = why_cold.empty() ? "work" : "work " + why_cold;
      return net::send_packet(to.get(), word.substr(0, net::packet_bytes_max),
                              {work.get(), output.get(), errors.get(), report.get()});
    }
  };

  worker(const asio::any_io_executor& executor, pid_t id, spawn_handlers called)
      : pid(id), report(executor), begin_timer(executor), handlers(std::move(called)) {}

  pid_t pid;
  std::string rank;  // "LOCAL_RANK=1"
  asio::posix::stream_descriptor report;
  asio::steady_timer begin_timer;
  spawn_handlers handlers;
  time_point began = std::chrono::steady_clock::now();
  std::string cold_because;  // the reason that it has reported
  bool is_signalled = false;
  std::optional<order> waits;  // until what it has imported is looked at
  bool is_sent_cold = false;   // it is to execute its command, for what has been told
  bool is_lost = false;        // its order did not reach it
  spawn_request request;       // as long as its order may not have reached it
};

warm_spawner::warm_spawner(asio::any_io_executor executor, spawner& inner, guardian& guard,
                           log_mux& mux, warm_options options, say_handler say)
    : executor_(std::move(executor)),
      inner_(inner),
      guardian_(guard),
      mux_(mux),
      options_(std::move(options)),
      say_(std::move(say)),
      check_(executor_, options_.check,
             [this](const std::string& why, bool is_of_known) { take_check(why, is_of_known); }),
      memory_(executor_, options_.memory, memory_events()),
      look_timer_(executor_),
      refill_timer_(executor_),
      reading_(executor_),
      keeping_(executor_) {}

warm_spawner::~warm_spawner() {
  alive_.end();
  std::vector<pid_t> killed(let_go_.begin(), let_go_.end());
  if (zygote_ && zygote_->pid() > 0) killed.push_back(zygote_->pid());
  for (const spare& one : spares_)
    killed.push_back(one.pid);
  zygote_.reset();
  let_spares_go();
  const auto until = std::chrono::steady_clock::now() + end_limit;
  for (const pid_t pid : killed) {
    inner_.reap_within(pid, until - std::chrono::steady_clock::now());
    guardian_.remove(pid);
  }
}

bool warm_spawner::adopt(pid_t pid, ended_handler ended) {
  return inner_.adopt(pid, std::move(ended));
}

void warm_spawner::signal_group(pid_t pid, int signal) {
  if (const auto found = workers_.find(pid); found != workers_.end())
    found->second->is_signalled = true;
  if (suspicion_) suspicion_->signalled(pid);
  check_imports();
  inner_.signal_group(pid, signal);
}

void warm_spawner::reap(pid_t pid) {
  inner_.reap(pid);
}

bool warm_spawner::reap_within(pid_t pid, duration limit) {
  return inner_.reap_within(pid, limit);
}

std::vector<pid_t> warm_spawner::living_groups(const std::vector<pid_t>& groups) {
  return inner_.living_groups(groups);
}

bool warm_spawner::owns(pid_t pid) const {
  return inner_.owns(pid);
}

spawn_result warm_spawner::spawn(const spawn_request& request, spawn_handlers handlers) {
  if (!may_be_warm(request)) return inner_.spawn(request, std::move(handlers));
  handlers.ended = [weak = alive_.watch(), this, ended = std::move(handlers.ended)](
                       pid_t pid, exit_status status) {
    if (!weak.expired() && !status.success()) check_imports();
    ended(pid, status);
  };
  if (suspicion_) return suspicion_->spawn(request, std::move(handlers));
  if (auto given = give(request, handlers)) return std::move(*given);
  return spawn_cold(request, std::move(handlers));
}

// Python inspects its terminal and its streams at startup, so a spare cannot be given them later.
bool warm_spawner::may_be_warm(const spawn_request& request) {
  if (request.output_terminal || request.errors_terminal) {
    tell("workers with terminals (--pty) are started cold");
    return false;
  }
  return request.capture && request.standard_input < 0 && request.directory.empty() &&
         !request.outlives_us;
}

// None: there is no spare, or no descriptor left; the cold start then reports the shortage.
std::optional<spawned_child> warm_spawner::give(const spawn_request& request,
                                                const spawn_handlers& handlers) {
  const bool is_another =
      known_ && known_->program != request.program;  // than the modules were imported with
  if (is_another) begin_anew();
  if (spares_.empty()) return std::nullopt;
  auto output = make_pipe();
  auto errors = make_pipe();
  auto report = make_pipe();
  const bool is_recorded = is_to_be_recorded(request) && record_;
  auto work = make_memory_file(
      "ddprun-work",
      work_of(request, is_recorded ? record_->path() : std::string(), options_.stack_site));
  if (!output || !errors || !report || !work) return std::nullopt;
  worker::order order{{},
                      std::move(*work),
                      std::move(output->write),
                      std::move(errors->write),
                      std::move(report->write)};
  check_.begin();
  while (!spares_.empty()) {
    const pid_t pid = spares_.front().pid;
    order.to = std::move(spares_.front().orders);
    spares_.pop_front();
    const bool is_held = check_.under_way();
    if (!is_held && order.send({})) {  // it has died, and that is about to be told
      let_go_.insert(pid);
      inner_.signal_group(pid, SIGKILL);
      continue;
    }
    const auto given = std::make_shared<worker>(executor_, pid, handlers);
    set_nonblocking(report->read.get());
    given->report.assign(report->read.release());
    given->rank = local_rank_of(request);
    workers_.emplace(pid, given);
    await_report(given);
    if (is_held) {
      given->waits = std::move(order);
      given->request = request;
      held_.push_back(given);
    } else {
      end_late(given);
    }
    is_of_last_life_ = false;
    if (is_recorded) look_at_record(options_.look_pause);
    refill_later();
    return spawned_child{pid, std::move(output->read), std::move(errors->read)};
  }
  return std::nullopt;
}

void warm_spawner::check_imports() {
  if (!spares_.empty()) check_.begin();
}

// Of what the spares have imported: empty if a cold start would import the same.
void warm_spawner::take_check(const std::string& why_cold, bool is_of_known) {
  if (!why_cold.empty() && (is_of_known || !held_.empty()))
    tell("workers are started cold: " + why_cold);
  // What has been imported anew since is as good as a cold start, and so is what a worker that was
  // started cold meanwhile imports.
  const bool is_recorded = std::exchange(is_recorded_in_look_, false);
  if (!why_cold.empty() && is_of_known) is_recorded ? forget_imports() : begin_anew();
  for (const auto& one : std::exchange(held_, {})) {
    const auto given = one.lock();
    if (!given || !given->waits) continue;
    worker::order order = *std::exchange(given->waits, std::nullopt);
    given->is_sent_cold = !why_cold.empty();
    if (given->is_sent_cold) record_if_first(*given, order.work);
    given->began = std::chrono::steady_clock::now();
    given->is_lost = order.send(why_cold).failed();
    if (given->is_lost) {  // it has died, and that is about to be told
      inner_.signal_group(given->pid, SIGKILL);
      continue;
    }
    given->request = {};
    end_late(given);
  }
}

// A spare that executes its command is a cold start, so it is learnt from as from any other.
void warm_spawner::record_if_first(const worker& cold, unique_fd& work) {
  if (record_ || !is_to_be_recorded(cold.request) || !make_record(cold.request)) return;
  auto recorded = make_memory_file("ddprun-work", work_of(record_->recorded(cold.request), {}, {}));
  if (recorded) work = std::move(*recorded);
}

void warm_spawner::await_report(const std::shared_ptr<worker>& given) {
  given->report.async_wait(
      asio::posix::stream_descriptor::wait_read,
      while_alive(std::weak_ptr(given), [this, &told = *given](error_code error) {
        if (error || told.is_lost) return;
        if (read_report(told) != report_state::over) return await_report(told.shared_from_this());
        take_report(told);
        // Moved out: the handler may destroy the spawner.
        const auto executed = std::move(told.handlers.executed);
        if (executed) executed();
      }));
}

// A spare that hangs after it was given work (stopped, frozen, swapped out) would delay the round.
void warm_spawner::end_late(const std::shared_ptr<worker>& given) {
  given->begin_timer.expires_after(options_.begin_limit);
  given->begin_timer.async_wait(
      while_alive(std::weak_ptr(given), [this, &late = *given](error_code error) {
        if (error || !late.report.is_open()) return;
        tell("a spare worker did not begin within " + ddprun::to_text(options_.begin_limit) +
             ": it is killed");
        inner_.signal_group(late.pid, SIGKILL);
        turn_off("spare workers do not begin");
      }));
}

// The pipe closes when the worker is about to run the script, or has executed its command.
warm_spawner::report_state warm_spawner::read_report(worker& given) {
  std::array<char, 4096> text;
  const ssize_t count = ::read(given.report.native_handle(), text.data(), text.size());
  if (count < 0 && errno == EINTR) return report_state::more;
  if (count < 0 && errno == EAGAIN) return report_state::open;
  if (count <= 0) return report_state::over;
  given.cold_because.append(text.data(), static_cast<std::size_t>(count));
  return report_state::more;
}

void warm_spawner::take_report(worker& given) {
  error_code ignored;
  given.report.close(ignored);
  given.begin_timer.cancel();
  if (given.cold_because.empty() || given.is_sent_cold) return;
  tell("workers are started cold: " + given.cold_because);
  begin_anew();
}

void warm_spawner::child_ended(pid_t pid, exit_status status) {
  if (const auto found = workers_.find(pid); found != workers_.end()) {
    const std::shared_ptr<worker> over = found->second;
    // No line of the script has run, and nothing of it is left: a spare is what has ended. One that
    // we have signalled has ended as its worker was to.
    if ((over->waits || over->is_lost) && !over->is_signalled) {
      workers_.erase(found);
      inner_.reap(pid);
      spare_ended(status);
      start_failure why;
      why.stage = start_stage::spare;
      why.error = EAGAIN;
      why.program = over->request.argv.front();
      if (over->handlers.failed) over->handlers.failed(why);
      return;
    }
    if (over->report.is_open()) {
      // The worker's end of the pipe is closed, but a process that it has left may hold it open.
      while (read_report(*over) == report_state::more) {
      }
      take_report(*over);
    }
    const auto executed = std::move(over->handlers.executed);
    if (executed) executed();
    workers_.erase(pid);
    judge_early_end(*over, status);
    return over->handlers.ended(pid, status);
  }
  inner_.reap(pid);
  guardian_.remove(pid);
  std::erase_if(spares_, [pid](const spare& one) { return one.pid == pid; });
  if (let_go_.erase(pid) != 0) return;
  spare_ended(status);
}

void warm_spawner::spare_ended(exit_status status) {
  if (status.signal == SIGKILL) options_.killed();
  lack_spare("spare workers end by themselves: " + status.describe());
}

void warm_spawner::judge_early_end(const worker& over, exit_status status) {
  const bool is_early = std::chrono::steady_clock::now() - over.began < early;
  // A worker that we signalled, or that was started cold after all, proves nothing.
  if (status.success() || !is_early || over.is_signalled || !over.cold_because.empty()) return;
  if (suspicion_ || is_off_) return;
  cold_comparison::events events;
  events.is_script = [this] { suspicion_.reset(); };
  events.is_warm_start = [this](const std::string& how) {
    suspicion_.reset();
    let_spares_go();
    turn_off("a warm worker failed in its first second, and " + how);
  };
  suspicion_ = std::make_unique<cold_comparison>(
      executor_, inner_, cold_comparison::suspect{over.rank, status, loaded_bytes_},
      options_.comparison, std::move(events));
  tell("a worker failed in its first second after a warm start: the next ones are started cold");
}

}  // namespace ddprun::launcher::warm
