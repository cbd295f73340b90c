#include "launcher/process/find_program.hpp"
#include "launcher/process/worker_group_state.hpp"

#include <boost/asio/post.hpp>

#include <cerrno>
#include <csignal>

namespace asio = boost::asio;

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds pause_between_tries{100};

std::string path_variable(const worker_command& command) {
  for (const auto& variable : command.environment) {
    if (variable.starts_with("PATH=")) return variable;
  }
  return {};
}

}  // namespace

void worker_group::state::start_next() {
  if (stopping) return;
  if (next == workers.size()) {
    const auto to = handlers;
    if (to->all_started) to->all_started();
    return;
  }
  worker& one = *workers[next];
  const std::string& name = one.command.argv.front();
  if (name.find('/') != std::string::npos) return fork_one(one, name);
  std::string path = path_variable(one.command);
  if (name == found_name && path == found_path) return fork_one(one, found);
  search.start(
      [name, environment = one.command.environment] { return find_program(name, environment); },
      [this, name, path](std::optional<std::optional<std::string>> answer) {
        if (stopping) return;
        worker& asked = *workers[next];
        if (!answer || !*answer) {
          const int error = answer ? ENOENT : EAGAIN;
          return not_startable(asked, {start_stage::find, error, name, {}, false, false});
        }
        found_name = name;
        found_path = path;
        found = **answer;
        fork_one(asked, found);
      });
}

void worker_group::state::fork_one(worker& one, const std::string& program) {
  spawn_request request;
  request.program = program;
  request.argv = one.command.argv;
  request.environment = one.command.environment;
  if (guardian_ != nullptr) request.announce_to = guardian_->announce_fd();
  if (strays != nullptr) request.cgroup = strays->cgroup_fd();
  const auto index = next;
  spawn_handlers called;
  called.executed = [weak = weak_from_this(), index] {
    if (const auto self = weak.lock()) self->on_executed(*self->workers[index]);
  };
  called.failed = [weak = weak_from_this(), index](const start_failure& why) {
    if (const auto self = weak.lock()) self->not_startable(*self->workers[index], why);
  };
  called.ended = [weak = weak_from_this(), index, &spawn = spawner_](pid_t pid,
                                                                     exit_status status) {
    const auto self = weak.lock();
    if (self) return self->on_exit(*self->workers[index], status);
    spawn.reap(pid);  // the group was destroyed, and killed it
  };
  auto started = spawner_.spawn(request, std::move(called));
  if (!started) return not_startable(one, started.error());
  one.pid = started->pid;
  one.phase = worker_phase::starting;
  if (guardian_ != nullptr) guardian_->add(one.pid);
  attach(one, 0, std::move(started->output));
  attach(one, 1, std::move(started->errors));
}

void worker_group::state::on_executed(worker& one) {
  one.phase = worker_phase::running;
  one.command.environment = {};
  short_since.reset();
  if (stopping) return;
  ++next;
  start_next();
}

// Nothing of it is left.
void worker_group::state::not_startable(worker& one, const start_failure& why) {
  const auto self = shared_from_this();
  release(one);
  if (guardian_ != nullptr && one.pid > 0) guardian_->remove(one.pid);
  if (tries_again(one, why)) return;
  one.phase = worker_phase::done;
  tell([rank = one.command.local_rank, why](const events& to) {
    if (to.start_failed) to.start_failed(rank, why);
  });
  abandon();
}

bool worker_group::state::tries_again(worker& one, const start_failure& why) {
  if (stopping || !is_shortage(why.error)) return false;
  const auto now = std::chrono::steady_clock::now();
  const bool is_first = !short_since;
  if (is_first) short_since = now;
  if (now - *short_since >= settings.shortage_limit) return false;
  one.phase = worker_phase::waiting;
  one.pid = -1;
  one.end = {};
  retry_timer.expires_after(pause_between_tries);
  retry_timer.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!error && self) self->start_next();
  });
  const auto to = handlers;
  if (is_first && to->short_of) to->short_of(why);
  return true;
}

// Who waits for its turn waits no more.
void worker_group::state::abandon() {
  const auto self = shared_from_this();
  search.cancel();
  retry_timer.cancel();
  next = workers.size();
  for (const auto& one : workers) {
    if (one->phase != worker_phase::waiting) continue;
    one->phase = worker_phase::done;
    tell([rank = one->command.local_rank](const events& to) {
      if (to.not_started) to.not_started(rank);
    });
  }
  if (is_last()) look_anew();
}

void worker_group::state::attach(worker& one, int index, unique_fd pipe) {
  log_mux::source from;
  from.pipe = std::move(pipe);
  from.prefix = one.command.prefix;
  from.to = index == 0 ? output_stream::output : output_stream::errors;
  const auto place = next;
  if (index == 1) {
    from.tap = [weak = weak_from_this(), place](std::string_view bytes) {
      if (const auto self = weak.lock()) self->workers[place]->tail.add(bytes);
    };
  }
  from.ended = [weak = weak_from_this(), place, index](const output_loss& lost) {
    const auto self = weak.lock();
    if (!self) return;
    worker& ended = *self->workers[place];
    ended.end.lost.add(lost);
    ended.sources[index] = 0;
    self->check_drained(ended);
  };
  one.sources[index] = mux.add(std::move(from));
}

void worker_group::state::later(void (state::*what)()) {
  asio::post(executor, [weak = weak_from_this(), what] {
    if (const auto self = weak.lock()) ((*self).*what)();
  });
}

worker_group::worker_group(asio::any_io_executor executor, spawner& spawn, log_mux& mux,
                           guardian* guard, stray_reaper* strays, options values)
    : state_(std::make_shared<state>(std::move(executor), spawn, mux, guard, strays, values)) {}

worker_group::~worker_group() {
  kill();
  state_->handlers = std::make_shared<const events>();
}

void worker_group::start(std::vector<worker_command> commands, events handlers) {
  DDPRUN_ASSERT(state_->workers.empty() && !commands.empty());
  state_->handlers = std::make_shared<const events>(std::move(handlers));
  state_->workers.reserve(commands.size());
  for (auto& command : commands)
    state_->workers.push_back(std::make_shared<worker>(state_->executor, std::move(command)));
  state_->untold = commands.size();
  state_->later(&state::start_next);
}

void worker_group::signal(int signal) {
  if (state_->untold == 0 && !state_->is_last()) return;
  state_->stopping = true;
  if (signal == SIGKILL) state_->killing = true;
  for (const auto& one : state_->workers) {
    const bool has_begun = one->phase != worker_phase::starting;
    if (one->phase != worker_phase::waiting && one->phase != worker_phase::done) {
      state_->spawner_.signal_group(one->pid, has_begun ? signal : SIGKILL);
    }
    if (one->phase == worker_phase::draining) state_->hurry(*one);
  }
  state_->later(&state::abandon);
  if (state_->killing) state_->later(&state::look_anew);
}

void worker_group::kill() {
  signal(SIGKILL);
}

std::vector<worker_group::live_worker> worker_group::live() const {
  std::vector<live_worker> result;
  for (const auto& one : state_->workers) {
    if (one->phase == worker_phase::waiting || one->phase == worker_phase::done) continue;
    result.push_back({one->command.local_rank, one->command.rank, one->pid});
  }
  return result;
}

}  // namespace ddprun
