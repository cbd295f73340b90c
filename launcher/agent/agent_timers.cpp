// Timers that workers set for themselves by torch.distributed.elastic.timer: one that expires ends
// its worker, and so the round.
#include "launcher/agent/agent.hpp"
#include "rendezvous/base/signals.hpp"

#include <csignal>
#include <utility>

namespace ddprun::launcher {
namespace {

constexpr std::string_view enabling_variable = "TORCHELASTIC_ENABLE_FILE_TIMER";
constexpr std::string_view path_variable = "TORCHELASTIC_TIMER_FILE";

bool is_by(const exit_status& status, int signal) {
  if (signal == 0) return false;
  return status.signal == signal || status.code == exit_code_of_signal(signal);
}

}  // namespace

// The workers inherit the path. Without a pipe they find none, as with a launcher that has no
// timers; a path at which nobody listens would end them.
void agent::watch_timers() {
  if (variable_or_empty(environment_, enabling_variable) != "1") return;
  timer_pipe::handlers told;
  told.is_ours = [this](std::int64_t process) { return holder_of(process).has_value(); };
  told.expired = [this](const workers::expired_timer& timer) { end_by_timer(timer); };
  told.warn = [this](const std::string& line) { say(note_level::warning, line); };
  timers_ = std::make_unique<timer_pipe>(
      context_.get_executor(),
      timer_pipe::place{variable_or_empty(environment_, path_variable),
                        folder_for_temporaries(environment_), identity_.mark},
      std::move(told));
  environment_.erase(std::string(path_variable));
  if (!timers_->path().empty()) {
    environment_.emplace(std::string(path_variable), timers_->path());
  }
}

std::optional<worker_group::live_worker> agent::holder_of(std::int64_t process) const {
  return workers_ ? workers_->holder_of(static_cast<pid_t>(process)) : std::nullopt;
}

// A process that a worker has started may be the one: it alone gets the signal, as with torchrun.
void agent::end_by_timer(const workers::expired_timer& timer) {
  if (stopped_round_ == workers_round_) return;  // they have their time to end
  const auto worker = holder_of(timer.process);
  if (!worker) return;
  const std::string text = describe(timer);
  std::string line = "rank " + std::to_string(worker->rank) + ": " + text;
  line += timer.signal == 0
              ? "; it asks for no signal"
              : "; process " + std::to_string(timer.process) + " gets " + signal_name(timer.signal);
  const auto [last, is_first] = expired_timers_.try_emplace(worker->pid);
  last->second = {timer.signal, text};
  // A worker may go on after a signal, and let the next ones expire, too.
  if (is_first) say(note_level::warning, line);
  if (timer.signal != 0) ::kill(static_cast<pid_t>(timer.process), timer.signal);
}

// A timer expires where something else does not come, which is often another rank: whoever fails
// for a reason of its own meanwhile is rather the root cause.
void agent::name_timer(const worker_end& end, cause& why) const {
  const auto found = expired_timers_.find(end.pid);
  if (found == expired_timers_.end() || !is_by(end.status, found->second.number)) return;
  why.text = found->second.text;
  why.is_secondary = true;
}

}  // namespace ddprun::launcher
