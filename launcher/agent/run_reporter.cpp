#include "launcher/agent/run_reporter.hpp"

#include "launcher/report/error_file.hpp"
#include "launcher/report/round_box.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace ddprun::launcher {
namespace {

std::string text_of_rank(std::uint32_t rank, std::uint32_t local_rank) {
  return "rank " + std::to_string(rank) + " (local rank " + std::to_string(local_rank) + ")";
}

}  // namespace

run_reporter::run_reporter(boost::asio::any_io_executor executor, console& out, options values,
                           outside with)
    : console_(out),
      options_(std::move(values)),
      outside_(std::move(with)),
      error_file_(std::move(executor), options_.error_file,
                  [this](const std::string& line) { say(note_level::warning, line); }),
      events_(options_.restarts_max) {}

void run_reporter::tell(const std::vector<run_event>& events) const {
  for (const run_event& event : events)
    outside_.tell(event);
}

void run_reporter::begin_round(const core::start_workers& round,
                               const std::vector<worker_command>& commands) {
  round_ = round.round;
  members_ = round.members;
  told_cause_.clear();
  error_files_.clear();
  events_.enter(round.round, round.assignment, round.members, round.restarts_used);
  const std::string restart = restarts_heard_.text(round.instance, round.restarts_used,
                                                   round.restarts_forgiven, options_.restarts_max);
  say(note_level::info, round_starts_text(round.round, round.assignment, round.members, restart));
  if (shows(note_level::debug)) tell_commands(commands);
}

void run_reporter::tell_commands(const std::vector<worker_command>& commands) {
  told_commands_.resize(commands.size());
  for (std::size_t index = 0; index < commands.size(); ++index) {
    const worker_command& one = commands[index];
    std::string text = command_text(one.argv);
    if (text == told_commands_[index]) continue;
    say(note_level::debug, text_of_rank(one.rank, one.local_rank) + " is started as: " + text);
    told_commands_[index] = std::move(text);
  }
}

void run_reporter::all_started(round_number round,
                               const std::vector<worker_group::live_worker>& living) {
  if (shows(note_level::debug)) {
    for (const worker_group::live_worker& one : living) {
      say(note_level::debug,
          text_of_rank(one.rank, one.local_rank) + " is process " + std::to_string(one.pid));
    }
  }
  tell(events_.started(round));
}

void run_reporter::hear_hang(const std::optional<hung_rank>& who) {
  tell(events_.hangs(who));
}

void run_reporter::keep_error_file(pid_t worker, const std::string& content) {
  if (error_file_.is_wanted()) error_files_[worker] = content;
}

void run_reporter::note(note_level level, const std::string& text) {
  if (shows(level)) last_note_ = text;
  say(level, text);
}

bool run_reporter::is_new(const round_report& report) const {
  return report.instance != reported_.instance || report.round > reported_.round;
}

void run_reporter::report(const round_report& report, const report_origin& from) {
  reported_ = {report.instance, report.round};
  summary_.add(report, members_, from.reached);
  tell(events_.over(report, from.output));
  if (is_worth_a_box(report)) {
    const bool is_whole = report.group_world_size <= nodes_with_boxes_max || events_.leads() ||
                          report.root_cause->node == options_.node;
    say(note_level::warning,
        is_whole ? round_box(report, from.output, from.stood, from.reached) : round_line(report));
    const bool is_shown = shows(note_level::warning);
    if (report.is_last && is_shown) told_cause_ = core::describe(*report.root_cause);
  }
  if (outside_.save) outside_.save(report_json(report, from));
}

void run_reporter::tell_leaving(const core::leave& how) {
  tell_missed_cause(how);
  tell_end(how);
  if (how.exit_code != 0) {
    const std::string why = why_it_ended(how);
    say(note_level::error,
        "exit code " + std::to_string(how.exit_code) + (why.empty() ? "" : ": " + why));
  } else if (how.text != last_note_ && !how.text.empty()) {
    say(note_level::info, how.text);
  }
}

void run_reporter::tell_end_before_start(int exit_code, const std::string& text) {
  tell_end({exit_code, text, std::nullopt});
}

// The report may have been lost with a connection.
void run_reporter::tell_missed_cause(const core::leave& how) {
  if (!how.root_cause || how.root_cause->round <= reported_.round) return;
  const bool is_told = console_.show_failure(*how.root_cause);
  if (is_told && shows(note_level::warning)) told_cause_ = core::describe(*how.root_cause);
}

// People look at the last line first, but what is printed a few lines above need not be repeated.
std::string run_reporter::why_it_ended(const core::leave& how) const {
  const bool is_told = how.root_cause && !told_cause_.empty();
  if (!is_told || !how.text.starts_with(told_cause_)) return how.text;
  const round_number round = std::max(how.root_cause->round, reported_.round);
  const std::string text =
      "round " + std::to_string(round) + " failed; its root cause is shown above";
  // The box also shows the rest: "all 3 restarts are used".
  return round == reported_.round ? text : text + how.text.substr(told_cause_.size());
}

// No summary if the run goes on without this node, or this node never took part.
void run_reporter::tell_end(const core::leave& how) {
  tell(events_.left(how.exit_code, how.text));
  leave_error_file(how);
  if (summary_.is_worth_telling()) say(note_level::info, summary_.text());
}

// Tells the program that has started this agent, for any kind of failure.
void run_reporter::leave_error_file(const core::leave& how) {
  if (how.exit_code == 0 || !error_file_.is_wanted()) return;
  run_end end;
  end.text = how.text;
  end.root_cause = how.root_cause;
  const auto& first = how.root_cause;
  if (first && first->node == options_.node && first->round == round_) {
    const auto found = error_files_.find(static_cast<pid_t>(first->process));
    if (found != error_files_.end()) end.recorded = found->second;
  }
  end.unix_seconds = std::time(nullptr);
  error_file_.write(error_file_of_run(end));
}

}  // namespace ddprun::launcher
