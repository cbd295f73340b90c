#include "launcher/process/worker_group.hpp"

#include "launcher/process/process_table.hpp"
#include "launcher/process/worker_group_state.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <csignal>
#include <unistd.h>

namespace asio = boost::asio;

namespace ddprun::launcher {

using clock = std::chrono::steady_clock;

// From the executor: what is to be said is said at once.
void worker_group::state::hear(const workers::event& what) {
  const auto self = shared_from_this();
  step(what);
  deliver();
}

// An answer to one effect waits until the others of the same step are carried out.
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

// A handler may signal the group, which is another step, or destroy it: then nobody is called any
// more.
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
  asio::post(self.executor,
             while_alive(self.weak_from_this(), [&self] { self.hear(workers::start_asked{}); }));
}

void worker_group::signal(int signal) {
  state& self = *state_;
  if (!self.machine) return;
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
  // One that was reaped meanwhile, though something of its group lives: the number may be
  // another's.
  const auto children = list_children();
  if (std::find(children.begin(), children.end(), to) == children.end()) return false;
  if (has_handler(to, signal)) return ::kill(to, signal) == 0;
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
      route.terminal = beside_prefix(*own, route.prefix);  // of the next try to start it
      if (source == 0) return;
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

}  // namespace ddprun::launcher
