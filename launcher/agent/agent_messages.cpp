// What the agent itself has to say, and what it adds to a report.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/report/round_box.hpp"
#include "launcher/vault/node_vault.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

// A reader of our output that reads nothing for so long at the end is given up; sooner if a user or
// a batch system has asked for the end.
constexpr auto output_limit = std::chrono::seconds(60);
constexpr auto output_limit_after_signal = std::chrono::seconds(10);

constexpr auto live_interval = std::chrono::seconds(1);
constexpr auto progress_interval_max = std::chrono::seconds(30);

}  // namespace

void agent::say(note_level level, const std::string& text) {
  console_.say(level, text);
}

// The node is checked while the daemon is dialled; warnings are printed before the first round.
void agent::warn_of_node(bool waits) {
  if (!identity_.look_at_node) return;
  const auto warnings = identity_.look_at_node(waits);
  if (!warnings) return;
  identity_.look_at_node = nullptr;
  for (const std::string& warning : *warnings)
    say(note_level::warning, warning);
}

// Reports that a wait goes on, and for what: in a log at intervals that double, on a terminal each
// second. While the workers run and the daemon answers, there is nothing to report.
void agent::report_progress(duration after) {
  progress_timer_.expires_after(after);
  progress_timer_.async_wait([this, after](boost::system::error_code error) {
    if (error || exit_code_ || !machine_) return;
    warn_of_node(false);
    const bool at_work = machine_->phase() == member_phase::running;
    if (!at_work || !session_.is_connected()) {
      const std::string why = machine_->why(std::chrono::steady_clock::now());
      if (show_wait(why)) return report_progress(live_interval);
      say(note_level::info, why);
    }
    report_progress(std::min<duration>(2 * after, progress_interval_max));
  });
}

// On a terminal, replaces the line that was shown before.
bool agent::show_wait(const std::string& why) {
  const auto size = own_terminal::size_of(log::output_stream::errors);
  if (!size || !writer_.can_redraw()) return false;
  const auto line = console_.state_line(why, size->columns);
  if (line) writer_.show_state(*line);
  return line.has_value();
}

void agent::tell_round(const core::start_workers& effect,
                       const std::vector<worker_command>& commands) {
  warn_of_node(true);
  console_.enter(effect.round);
  if (workers_->round() == 0) {
    if (const auto note = thread_count_note(identity_.worker_count, environment_); !note.empty()) {
      say(note_level::info, note);
    }
  }
  reporter_->begin_round(effect, commands);
}

void agent::hear_report(const round_report& report) {
  if (exit_code_ || !reporter_->is_new(report)) return;
  report_origin from{options_.run_id, identity_.node};
  from.output = output_of(report);
  from.reached = report.round == workers_->round() ? evidence_->reached() : "";
  vault_->judge(report);
  evidence_->judge(report.round, is_failure(report));
  const evidence::saved_evidence known = evidence_->of(report.round);
  from.stood = known.sentence;
  from.evidence = known.folder;
  reporter_->report(report, from);
}

// Where the whole output of the root cause is; empty: not on this node, or in no file.
std::string agent::output_of(const round_report& report) const {
  if (!is_failure(report) || !options_.output.writes_files()) return {};
  const cause& first = *report.root_cause;
  const bool is_here = first.node == identity_.node && first.round == workers_->round();
  if (!is_here || !first.local_rank) return {};
  const log_route route =
      log_folder_.route(options_.output, *first.local_rank, log::output_stream::errors, "");
  if (route.file.empty()) return {};
  return log_folder_.attempt() + "/" + std::to_string(*first.local_rank);
}

void agent::finish_output() {
  const auto limit = was_signalled_ ? output_limit_after_signal : output_limit;
  const log::output_loss lost = log_files_.finish(limit);
  if (!lost.none()) {
    say(note_level::warning, lost.is_lost("log files") + ": they could not be written in time");
  }
  writer_.finish(limit);
}

}  // namespace ddprun::launcher
