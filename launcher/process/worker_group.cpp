#include "launcher/process/worker_group.hpp"

#include "launcher/process/find_program.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/process/worker_group_state.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <unistd.h>

namespace asio = boost::asio;

namespace ddprun::launcher {
namespace {

std::string path_variable(const worker_command& command) {
  for (const auto& variable : command.environment) {
    if (variable.starts_with("PATH=")) return variable;
  }
  return {};
}

}  // namespace

using clock = std::chrono::steady_clock;

// Called from the executor, so handlers may be called at once.
void worker_group::state::hear(const workers::event& what) {
  const auto self = shared_from_this();  // a handler may destroy the group
  step(what);
  deliver();
}

// Events that an effect causes are queued until all effects of this step are applied.
void worker_group::state::step(workers::event what) {
  heard.push_back(std::move(what));
  if (std::exchange(stepping, true)) return;
  while (!heard.empty()) {
    effects.clear();
    machine->step(heard.front(), clock::now(), effects);
    heard.pop_front();
    for (const workers::effect& effect : effects)
      std::visit([this](const auto& each) { apply(each); }, effect);
  }
  stepping = false;
  arm_timer();
}

// A handler may signal the group, which is another step, or destroy it: then no further handler is
// called.
void worker_group::state::deliver() {
  if (std::exchange(delivering, true)) return;
  while (!words.empty()) {
    const word next = std::move(words.front());
    words.pop_front();
    const auto to = handlers;
    next(*to);
  }
  delivering = false;
}

void worker_group::state::deliver_later() {
  if (words.empty() || delivering) return;
  asio::post(executor, while_alive(weak_from_this(), [this] { deliver(); }));
}

void worker_group::state::arm_timer() {
  const auto due = machine->next_deadline();
  if (due == armed_for) return;
  armed_for = due;
  if (!due) return void(timer.cancel());
  timer.expires_at(*due);
  timer.async_wait(while_alive(weak_from_this(), [this, due](error_code error) {
    // This handler may have been queued already when the timer was set again.
    if (error || armed_for != due) return;
    armed_for.reset();
    hear(workers::time_passed{});
  }));
}

worker_group::worker_group(asio::any_io_executor executor, spawner& spawn, log_mux& mux,
                           guardian* guard, stray_reaper* strays, options values)
    : state_(std::make_shared<state>(std::move(executor), spawn, mux, guard, strays, values)) {}

worker_group::~worker_group() {
  kill();
  // The state lives on until its workers are reaped, and has nobody to tell.
  state_->handlers = std::make_shared<const events>();
}

void worker_group::start(std::vector<worker_command> commands, events handlers) {
  state& self = *state_;
  DDPRUN_ASSERT(!self.machine);
  self.handlers = std::make_shared<const events>(std::move(handlers));
  self.workers.reserve(commands.size());
  for (auto& command : commands)
    self.workers.emplace_back(std::move(command));
  workers::limits limits;
  limits.drain = self.settings.drain_limit;
  limits.strays = self.settings.stray_limit;
  limits.shortage = self.settings.shortage_limit;
  limits.children = self.settings.children_grace;
  limits.has_strays = self.strays != nullptr;
  self.machine.emplace(limits, self.workers.size());
  // Posted, because the first start may fail at once, and no handler is called from inside a call.
  asio::post(self.executor,
             while_alive(self.weak_from_this(), [&self] { self.hear(workers::start_asked{}); }));
}

void worker_group::signal(int signal) {
  state& self = *state_;
  if (!self.machine) return;
  // What a worker writes from now on may be about the signal, so what it wrote before is kept
  // apart.
  if (!std::exchange(self.was_signalled, true)) {
    for (workers::place place = 0; place < self.workers.size(); ++place) {
      worker& one = self.workers[place];
      if (self.machine->has_process(place)) one.end.tail_before_stop = one.errors_tail.text();
    }
  }
  state_->step(workers::stop_asked{signal});
  state_->deliver_later();
}

bool worker_group::pass_on(pid_t to, int signal) const {
  // The worker may have been reaped and its PID reused while others of its group live.
  const auto children = list_children();
  if (std::find(children.begin(), children.end(), to) == children.end()) return false;
  if (has_handler(to, signal)) return ::kill(to, signal) == 0;
  // A shell that has started the program has no handler, and would die of the signal.
  bool is_passed_on = false;
  for (const process_entry& one : list_processes()) {
    if (one.group != to || !has_handler(one.pid, signal)) continue;
    is_passed_on = ::kill(one.pid, signal) == 0 || is_passed_on;
  }
  return is_passed_on;
}

void worker_group::resize_terminals(std::optional<terminal_size> output,
                                    std::optional<terminal_size> errors) {
  for (worker& one : state_->workers) {
    bool is_resized = false;
    const auto resize = [&](log_mux::source_id source, log_route& route,
                            const std::optional<terminal_size>& own) {
      if (!route.terminal || !own) return;
      route.terminal = beside_prefix(*own, route.prefix);  // for the next attempt to start it
      if (source == 0) return;  // the worker does not run yet, or has closed it
      state_->mux.resize(source, *route.terminal);
      is_resized = true;
    };
    resize(one.sources[0], one.command.output, output);
    resize(one.sources[1], one.command.errors, errors);
    if (is_resized) state_->spawner_.signal_group(one.pid, SIGWINCH);
  }
}

void worker_group::kill() {
  signal(SIGKILL);
}

std::vector<worker_group::live_worker> worker_group::live() const {
  std::vector<live_worker> result;
  for (workers::place place = 0; place < state_->workers.size(); ++place) {
    const worker& one = state_->workers[place];
    if (!state_->machine->has_process(place)) continue;
    result.push_back({one.command.local_rank, one.command.rank, one.pid, one.said_bytes});
  }
  return result;
}

worker_group::words worker_group::words_of(std::uint32_t rank) const {
  for (workers::place place = 0; place < state_->workers.size(); ++place) {
    const worker& one = state_->workers[place];
    if (one.command.rank != rank || !state_->machine->has_process(place)) continue;
    return {one.output_tail.text(), one.errors_tail.text()};
  }
  return {};
}

std::optional<worker_group::live_worker> worker_group::holder_of(pid_t process) const {
  const pid_t session = ::getsid(process);
  for (const live_worker& one : live()) {
    if (one.pid == session) return one;
  }
  return std::nullopt;
}

void worker_group::state::apply(const workers::find_program& effect) {
  const auto place = effect.worker;
  const worker_command& command = workers[place].command;
  const std::string& name = command.argv.front();
  if (name.find('/') != std::string::npos) {
    program = name;
    return step(workers::program_found{place});
  }
  std::string path = path_variable(command);
  // All workers mostly run the same program: one search is enough.
  if (name == found_name && path == found_path) {
    program = found;
    return step(workers::program_found{place});
  }
  search.start(
      [name, environment = command.environment] { return find_program(name, environment); },
      [this, place, name, path](std::optional<std::optional<std::string>> answer) {
        if (!answer || !*answer) {
          // Without a thread there was no search, which is a shortage and may pass.
          const int error = answer ? ENOENT : EAGAIN;
          return hear(workers::start_failed{place, {start_stage::find, error, name, {}}});
        }
        found_name = name;
        found_path = path;
        program = found = **answer;
        hear(workers::program_found{place});
      });
}

void worker_group::state::apply(const workers::forget_search&) {
  search.cancel();
}

void worker_group::state::apply(const workers::spawn& effect) {
  worker& one = workers[effect.worker];
  // An earlier attempt, during a shortage, may have left its own.
  one.pid = -1;
  one.end = {};
  spawn_request request;
  request.program = program;
  request.argv = one.command.argv;
  request.environment = one.command.environment;
  request.processors = one.command.processors;
  request.output_terminal = one.command.output.terminal;
  request.errors_terminal = one.command.errors.terminal;
  if (guardian_ != nullptr) request.announce_to = guardian_->announce_fd();
  if (strays != nullptr) request.cgroup = strays->cgroup_fd();
  auto started = spawner_.spawn(request, handlers_of(effect.worker));
  if (!started) return step(workers::start_failed{effect.worker, started.error()});
  // The child has told the guardian itself before exec, in case this agent dies first; this also
  // records it for a guardian that replaces that one.
  one.pid = started->pid;
  if (guardian_ != nullptr) guardian_->add(one.pid);
  attach(effect.worker, workers::output_pipe::output, std::move(started->output));
  attach(effect.worker, workers::output_pipe::errors, std::move(started->errors));
}

spawn_handlers worker_group::state::handlers_of(workers::place place) {
  spawn_handlers called;
  called.executed = while_alive(weak_from_this(), [this, place] {
    // It is not needed any more, and each worker has its own.
    workers[place].command.environment = {};
    hear(workers::executed{place});
  });
  called.failed = while_alive(weak_from_this(), [this, place](const start_failure& why) {
    hear(workers::start_failed{place, why});
  });
  called.left = while_alive(weak_from_this(), [this, place] { on_left(place); });
  called.ended = [weak = weak_from_this(), place, &spawn = spawner_](pid_t pid,
                                                                     exit_status status) {
    if (const auto self = weak.lock()) return self->on_exit(place, status);
    spawn.reap(pid);  // the group was destroyed, and has killed it
  };
  return called;
}

void worker_group::state::attach(workers::place place, workers::output_pipe which, unique_fd pipe) {
  worker& one = workers[place];
  const auto index = static_cast<std::size_t>(which);
  const bool is_errors = which == workers::output_pipe::errors;
  log_mux::source from;
  from.pipe = std::move(pipe);
  from.route = is_errors ? one.command.errors : one.command.output;
  from.to = is_errors ? log::output_stream::errors : log::output_stream::output;
  from.tap = while_alive(weak_from_this(), [this, place, is_errors](std::string_view bytes) {
    worker& told = workers[place];
    told.said_bytes += bytes.size();
    (is_errors ? told.errors_tail : told.output_tail).add(bytes);
  });
  from.ended =
      while_alive(weak_from_this(), [this, place, which, index](const log::output_loss& lost) {
        worker& ended = workers[place];
        ended.end.lost.add(lost);
        ended.sources[index] = 0;
        hear(workers::pipe_ended{place, which});
      });
  one.sources[index] = mux.add(std::move(from));
}

void worker_group::state::on_exit(workers::place place, exit_status status) {
  worker& one = workers[place];
  one.end.how = status;
  one.end.ended_at = std::chrono::steady_clock::now();
  // Only the time from here on makes the wait for its pipes longer (ask_reader).
  for (int index = 0; index < 2; ++index)
    one.held_back[index] = mux.waited(one.sources[index]);
  hear(workers::exited{place, status.success()});
}

// The end of a stopped worker is not reported anywhere, so a plain SIGTERM will do.
void worker_group::state::on_left(workers::place place) {
  worker& one = workers[place];
  one.end.how = exit_status{0, SIGTERM};
  one.end.ended_at = std::chrono::steady_clock::now();
  hear(workers::left{place});
}

void worker_group::state::apply(const workers::signal_group& effect) {
  spawner_.signal_group(workers[effect.worker].pid, effect.signal);
}

void worker_group::state::apply(const workers::hurry_pipes& effect) {
  for (const auto source : workers[effect.worker].sources)
    mux.hurry(source);
}

void worker_group::state::apply(const workers::release_pipes& effect) {
  worker& one = workers[effect.worker];
  for (auto& source : one.sources) {
    if (source == 0) continue;
    one.end.lost.add(mux.release(std::exchange(source, 0)));
  }
}

void worker_group::state::apply(const workers::ask_reader& effect) {
  const worker& one = workers[effect.worker];
  workers::reader_seen seen{effect.worker, false, {}};
  for (int index = 0; index < 2; ++index) {
    const auto source = one.sources[index];
    if (source == 0) continue;
    seen.holds_back = seen.holds_back || mux.waits(source);
    seen.held_back = std::max(seen.held_back, mux.waited(source) - one.held_back[index]);
  }
  step(seen);
}

void worker_group::state::apply(const workers::reap& effect) {
  spawner_.reap(workers[effect.worker].pid);
}

void worker_group::state::apply(const workers::look_at_groups& effect) {
  std::vector<pid_t> groups;
  for (const auto place : effect.workers)
    groups.push_back(workers[place].pid);
  const std::vector<pid_t> living = spawner_.living_groups(groups);
  workers::groups_seen seen;
  for (const auto place : effect.workers) {
    const bool lives = std::find(living.begin(), living.end(), workers[place].pid) != living.end();
    if (!lives) seen.empty.push_back(place);
  }
  step(std::move(seen));
}

// Everything that is left has come to us as an orphan, or descends from one: without orphans the
// process table need not be read.
workers::children_seen worker_group::state::find_children(workers::place place) {
  const pid_t group = workers[place].pid;
  workers::children_seen seen{place, 0, 0};
  children_left.clear();
  const std::vector<pid_t> orphans = strays != nullptr ? strays->orphans() : std::vector<pid_t>();
  if (orphans.empty()) return seen;
  for (const process_entry& one : list_processes()) {
    if (one.group == group && one.pid != group && !one.dead) children_left.push_back(one.pid);
  }
  seen.in_group = children_left.size();
  for (const pid_t orphan : orphans) {
    if (::getpgid(orphan) == group) continue;
    children_left.push_back(orphan);
    ++seen.strays;
  }
  return seen;
}

void worker_group::state::apply(const workers::look_at_children& effect) {
  step(find_children(effect.worker));
}

void worker_group::state::apply(const workers::count_strays&) {
  children_left = strays->find_strays();
  std::erase_if(children_left, [this](pid_t pid) {
    return std::find(kept.begin(), kept.end(), pid) != kept.end();
  });
  step(workers::strays_counted{children_left.size()});
}

void worker_group::state::apply(const workers::kill_strays&) {
  strays_left = strays->kill_strays();
  step(workers::strays_seen{strays_left.size()});
}

void worker_group::state::apply(const workers::forget_group& effect) {
  const pid_t pid = workers[effect.worker].pid;
  if (guardian_ != nullptr && pid > 0) guardian_->remove(pid);
}

void worker_group::state::apply(const workers::tell_all_started&) {
  words.push_back([](const events& to) {
    if (to.all_started) to.all_started();
  });
}

void worker_group::state::apply(const workers::tell_short_of& effect) {
  words.push_back([why = effect.why](const events& to) {
    if (to.short_of) to.short_of(why);
  });
}

void worker_group::state::apply(const workers::tell_left_behind& effect) {
  left_behind told{effect.what, std::nullopt, {}};
  // The list may be of another worker, or from before some of them ended.
  if (effect.what == workers::leftover_state::stopped && effect.worker)
    find_children(*effect.worker);
  std::vector<pid_t> left = children_left;
  if (effect.worker) {
    const worker& one = workers[*effect.worker];
    told.rank = one.command.rank;
    // If its own pipes are drained, strays did not delay it, so they are not its own.
    const bool is_drained = one.sources[0] == 0 && one.sources[1] == 0;
    if (is_drained) std::erase_if(left, [&](pid_t pid) { return ::getpgid(pid) != one.pid; });
  }
  if (left.empty()) return;  // they have ended meanwhile
  if (effect.what == workers::leftover_state::kept) {
    kept.insert(kept.end(), left.begin(), left.end());
  }
  // Read the names now: the next effect may kill the processes.
  for (const pid_t pid : left)
    told.processes.push_back(process_name(pid) + " (" + std::to_string(pid) + ")");
  words.push_back([told = std::move(told)](const events& to) {
    if (to.children_stay) to.children_stay(told);
  });
}

void worker_group::state::apply(const workers::tell_strays_stay&) {
  words.push_back([left = strays_left](const events& to) {
    if (to.strays_stay) to.strays_stay(left);
  });
}

void worker_group::state::apply(const workers::tell_all_ended&) {
  words.push_back([](const events& to) {
    if (to.all_ended) to.all_ended();
  });
}

void worker_group::state::tell_end(workers::place place) {
  worker& one = workers[place];
  one.end.local_rank = one.command.local_rank;
  one.end.rank = one.command.rank;
  words.push_back([end = one.end](const events& to) {
    if (to.ended) to.ended(end);
  });
}

void worker_group::state::apply(const workers::tell_start_failed& effect) {
  workers[effect.worker].end.how = effect.why;
  tell_end(effect.worker);
}

void worker_group::state::apply(const workers::tell_not_started& effect) {
  workers[effect.worker].end.how = not_tried();
  tell_end(effect.worker);
}

void worker_group::state::apply(const workers::tell_ended& effect) {
  worker& one = workers[effect.worker];
  one.end.pid = one.pid;
  one.end.tail = one.errors_tail.text();
  one.end.output_tail = one.output_tail.text();
  tell_end(effect.worker);
}

}  // namespace ddprun::launcher
