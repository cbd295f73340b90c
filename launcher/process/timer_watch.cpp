#include "launcher/process/timer_watch.hpp"

#include "rendezvous/base/signals.hpp"

#include <csignal>
#include <string_view>
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

timer_watch::timer_watch(boost::asio::any_io_executor executor, environment_map& environment,
                         const std::string& mark, outside with)
    : outside_(std::move(with)) {
  if (variable_or_empty(environment, enabling_variable) != "1") return;
  timer_pipe::handlers told;
  told.is_ours = [this](std::int64_t process) {
    return outside_.holder_of(static_cast<pid_t>(process)).has_value();
  };
  told.expired = [this](const workers::expired_timer& timer) { end_by(timer); };
  told.warn = outside_.say;
  pipe_ =
      std::make_unique<timer_pipe>(executor,
                                   timer_pipe::place{variable_or_empty(environment, path_variable),
                                                     folder_for_temporaries(environment), mark},
                                   std::move(told));
  environment.erase(std::string(path_variable));
  if (!pipe_->path().empty()) environment.emplace(std::string(path_variable), pipe_->path());
}

timer_watch::~timer_watch() = default;

void timer_watch::begin_round() {
  expired_.clear();
  if (pipe_) pipe_->forget_timers();
}

// The timer's process may be a child of a worker: only that process gets the signal, as in
// torchrun.
void timer_watch::end_by(const workers::expired_timer& timer) {
  if (outside_.is_ending()) return;
  const auto worker = outside_.holder_of(static_cast<pid_t>(timer.process));
  if (!worker) return;
  const std::string text = describe(timer);
  std::string line = "rank " + std::to_string(worker->rank) + ": " + text;
  line += timer.signal == 0
              ? "; it asks for no signal"
              : "; process " + std::to_string(timer.process) + " gets " + signal_name(timer.signal);
  const auto [last, is_first] = expired_.try_emplace(worker->pid);
  last->second = {timer.signal, text};
  // A worker may survive the signal, and further timers may expire.
  if (is_first) outside_.say(line);
  if (timer.signal != 0) ::kill(static_cast<pid_t>(timer.process), timer.signal);
}

// A timer expires if something does not happen in time, which is often another rank's fault. So a
// rank that fails meanwhile for a reason of its own is the better root cause.
void timer_watch::name_timer(const worker_end& end, cause& why) const {
  const auto found = expired_.find(end.pid);
  if (found == expired_.end() || !is_by(end.status(), found->second.number)) return;
  why.text = found->second.text;
  why.is_secondary = true;
}

}  // namespace ddprun::launcher
