#include "launcher/process/worker_group.hpp"

#include "launcher/log/output_tail.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <csignal>

namespace asio = boost::asio;

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds dying_pause_first{1};
constexpr std::chrono::milliseconds dying_pause_max{50};

// The life of a worker. Its place in the list never changes.
enum class worker_phase {
  running,
  draining,  // has ended; its pipes, and after a success its children, have a moment
  dying,     // SIGKILL is sent to its group, and the leader reaped; some of it still runs
  done,
};

struct worker {
  worker(const asio::any_io_executor& executor, worker_command values)
      : command(std::move(values)), timer(executor) {}

  worker_command command;
  pid_t pid = -1;
  worker_phase phase = worker_phase::running;
  worker_end end;
  output_tail tail;
  log_mux::source_id sources[2] = {0, 0};  // 0: at its end, or released
  asio::steady_timer timer;
  std::chrono::milliseconds pause = dying_pause_first;
};

}  // namespace

struct worker_group::state : std::enable_shared_from_this<worker_group::state> {
  state(asio::any_io_executor on, spawner& spawn, log_mux& to, guardian* guard, options values)
      : executor(std::move(on)), spawner_(spawn), mux(to), guardian_(guard), settings(values) {}

  void start(std::vector<worker_command> commands);
  bool start_one(worker& one);
  void attach(worker& one, int index, unique_fd pipe);
  void report_started();

  void on_exit(worker& one, exit_status status);
  void on_drain_limit(worker& one);
  void check_drained(worker& one);
  void end_group(worker& one);
  void check_dead(worker& one);
  void on_done(worker& one);
  void wait(worker& one, std::chrono::milliseconds time, void (state::*then)(worker&));

  bool reads_blocked(const worker& one) const {
    return mux.waits(one.sources[0]) || mux.waits(one.sources[1]);
  }

  asio::any_io_executor executor;
  spawner& spawner_;
  log_mux& mux;
  guardian* guardian_;
  options settings;
  std::shared_ptr<const events> handlers;
  std::vector<std::shared_ptr<worker>> workers;  // those that were started
  std::size_t live = 0;
  bool stopping = false;  // a signal was sent
  bool announced = true;  // all_started was reported, or never will be
};

void worker_group::state::start(std::vector<worker_command> commands) {
  for (auto& command : commands) {
    const auto one = std::make_shared<worker>(executor, std::move(command));
    if (!start_one(*one)) return;
    workers.push_back(one);
  }
  announced = false;
  asio::post(executor, [self = shared_from_this()] { self->report_started(); });
}

bool worker_group::state::start_one(worker& one) {
  spawn_request request;
  request.argv = one.command.argv;
  request.environment = std::move(one.command.environment);
  if (guardian_ != nullptr) request.announce_to = guardian_->announce_fd();
  const auto index = workers.size();
  auto started = spawner_.spawn(
      request, [weak = weak_from_this(), index, &spawn = spawner_](pid_t pid, exit_status status) {
        const auto self = weak.lock();
        if (self) return self->on_exit(*self->workers[index], status);
        spawn.reap(pid);  // the group was destroyed, and killed it
      });
  if (!started) {
    asio::post(executor, [self = shared_from_this(), failure = started.error(),
                          local_rank = one.command.local_rank, last = workers.empty()] {
      const auto to = self->handlers;
      if (to->start_failed) to->start_failed(local_rank, failure);
      if (last && to->all_ended) to->all_ended();
    });
    return false;
  }
  one.pid = started->pid;
  if (guardian_ != nullptr) guardian_->add(one.pid);
  ++live;
  attach(one, 0, std::move(started->output));
  attach(one, 1, std::move(started->errors));
  return true;
}

void worker_group::state::attach(worker& one, int index, unique_fd pipe) {
  log_mux::source from;
  from.pipe = std::move(pipe);
  from.prefix = one.command.prefix;
  from.to = index == 0 ? output_stream::output : output_stream::errors;
  const auto place = workers.size();
  if (index == 1) {
    from.tap = [weak = weak_from_this(), place](std::string_view bytes) {
      if (const auto self = weak.lock()) self->workers[place]->tail.add(bytes);
    };
  }
  from.ended = [weak = weak_from_this(), place, index] {
    const auto self = weak.lock();
    if (!self) return;
    worker& ended = *self->workers[place];
    ended.sources[index] = 0;
    self->check_drained(ended);
  };
  one.sources[index] = mux.add(std::move(from));
}

void worker_group::state::report_started() {
  if (std::exchange(announced, true)) return;
  const auto to = handlers;
  if (to->all_started) to->all_started();
}

void worker_group::state::on_exit(worker& one, exit_status status) {
  const auto self = shared_from_this();
  report_started();  // it comes first, whatever the order of the executor's queue
  one.phase = worker_phase::draining;
  one.end.status = status;
  one.end.ended_at = std::chrono::steady_clock::now();
  if (!status.success() || stopping) spawner_.signal_group(one.pid, SIGKILL);
  wait(one, settings.drain_limit, &state::on_drain_limit);
  check_drained(one);
}

void worker_group::state::on_drain_limit(worker& one) {
  if (one.phase != worker_phase::draining) return;
  // Our own reader holds the output back, and nobody waits for this node: no byte is given up.
  if (reads_blocked(one) && one.end.status.success() && !stopping) {
    return wait(one, settings.drain_limit, &state::on_drain_limit);
  }
  one.end.drained = reads_blocked(one);
  for (auto& source : one.sources) {
    if (source != 0) mux.release(source);
    source = 0;
  }
  end_group(one);
}

void worker_group::state::check_drained(worker& one) {
  if (one.phase != worker_phase::draining) return;
  if (one.sources[0] == 0 && one.sources[1] == 0) end_group(one);
}

// The leader is a zombie here, so the group's number is still ours.
void worker_group::state::end_group(worker& one) {
  one.phase = worker_phase::dying;
  spawner_.signal_group(one.pid, SIGKILL);
  spawner_.reap(one.pid);
  check_dead(one);
}

// Almost always the first look finds nobody. Children that were just killed need a moment, on a
// device a long one, and no handle tells when the last of a group is gone.
void worker_group::state::check_dead(worker& one) {
  if (!spawner_.group_lives(one.pid)) return on_done(one);
  wait(one, one.pause, &state::check_dead);
  one.pause = std::min(one.pause * 2, dying_pause_max);
}

void worker_group::state::on_done(worker& one) {
  one.phase = worker_phase::done;
  one.timer.cancel();
  if (guardian_ != nullptr) guardian_->remove(one.pid);
  one.end.local_rank = one.command.local_rank;
  one.end.rank = one.command.rank;
  one.end.pid = one.pid;
  one.end.tail = one.tail.text();
  const auto to = handlers;
  const auto self = shared_from_this();
  const bool last = --live == 0;
  if (to->ended) to->ended(one.end);
  if (last && to->all_ended) to->all_ended();
}

void worker_group::state::wait(worker& one, std::chrono::milliseconds time,
                               void (state::*then)(worker&)) {
  const auto found =
      std::find_if(workers.begin(), workers.end(), [&](const auto& w) { return w.get() == &one; });
  one.timer.expires_after(time);
  one.timer.async_wait([weak = weak_from_this(), kept = *found, then](error_code error) {
    const auto self = weak.lock();
    if (!error && self) ((*self).*then)(*kept);
  });
}

worker_group::worker_group(asio::any_io_executor executor, spawner& spawn, log_mux& mux,
                           guardian* guard, options values)
    : state_(std::make_shared<state>(std::move(executor), spawn, mux, guard, values)) {}

worker_group::~worker_group() {
  kill();
}

void worker_group::start(std::vector<worker_command> commands, events handlers) {
  DDPRUN_ASSERT(state_->workers.empty());
  state_->handlers = std::make_shared<const events>(std::move(handlers));
  state_->workers.reserve(commands.size());
  state_->start(std::move(commands));
}

void worker_group::signal(int signal) {
  state_->stopping = true;
  for (const auto& one : state_->workers) {
    if (one->phase != worker_phase::done) state_->spawner_.signal_group(one->pid, signal);
  }
}

void worker_group::kill() {
  signal(SIGKILL);
}

std::vector<worker_group::live_worker> worker_group::live() const {
  std::vector<live_worker> result;
  for (const auto& one : state_->workers) {
    if (one->phase == worker_phase::done) continue;
    result.push_back({one->command.local_rank, one->command.rank, one->pid});
  }
  return result;
}

}  // namespace ddprun
