// Messages about the run: on standard error, in --report's file, and to --on-event.
#include "launcher/agent/agent.hpp"
#include "launcher/agent/worker_environment.hpp"
#include "launcher/evidence/evidence_keeper.hpp"
#include "launcher/report/error_file.hpp"
#include "launcher/report/report_json.hpp"
#include "launcher/report/round_box.hpp"
#include "launcher/report/round_words.hpp"
#include "launcher/vault/node_vault.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

namespace ddprun::launcher {
namespace {

// A reader of our output that reads nothing for so long at the end is given up; sooner if a user or
// a batch system has asked for the end.
constexpr auto output_limit = std::chrono::seconds(60);
constexpr auto output_limit_after_signal = std::chrono::seconds(10);

}  // namespace

void agent::say(note_level level, const std::string& text) {
  console_.say(level, text);
}

void agent::end_without_daemon(daemon_place where, int code) {
  std::string problem = std::move(where.problem);
  if (options_.is_static && where.error == boost::system::errc::address_in_use) {
    problem +=
        ": by another program, or by another node with --node-rank 0 on this host; choose "
        "another --master-port, or another rank";
  }
  say(note_level::error, problem);
  exit_code_ = code;
  why_it_left_ = core::leave_reason::unmet;
  tell_end_of_run({code, problem, std::nullopt});
  after_goodbye();
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

void agent::tell_round(const core::start_workers& effect,
                       const std::vector<worker_command>& commands) {
  warn_of_node(true);
  console_.enter(effect.round);
  told_cause_.clear();
  members_ = effect.members;
  events_.enter(effect.round, effect.assignment, effect.members, effect.restarts_used);
  if (workers_round_ == 0) {
    if (const auto note = thread_count_note(identity_.worker_count, environment_); !note.empty()) {
      say(note_level::info, note);
    }
  }
  const std::string restart =
      restarts_heard_.text(effect.instance, effect.restarts_used, effect.restarts_forgiven,
                           options_.settings.restarts_max);
  say(note_level::info,
      round_starts_text(effect.round, effect.assignment, effect.members, restart));
  if (options_.log.least == note_level::debug) tell_commands(commands);
}

// Prints the command of each worker once, and again if it has changed.
void agent::tell_commands(const std::vector<worker_command>& commands) {
  told_commands_.resize(commands.size());
  for (std::size_t index = 0; index < commands.size(); ++index) {
    const worker_command& one = commands[index];
    std::string text = command_text(one.argv);
    if (text == told_commands_[index]) continue;
    say(note_level::debug, "rank " + std::to_string(one.rank) + " (local rank " +
                               std::to_string(one.local_rank) + ") is started as: " + text);
    told_commands_[index] = std::move(text);
  }
}

void agent::name_processes() {
  if (options_.log.least != note_level::debug) return;
  for (const worker_group::live_worker& one : workers_->live()) {
    say(note_level::debug, "rank " + std::to_string(one.rank) + " (local rank " +
                               std::to_string(one.local_rank) + ") is process " +
                               std::to_string(one.pid));
  }
}

// The report comes again with each new connection.
void agent::hear_report(const round_report& report) {
  if (exit_code_ || (report.instance == reported_.instance && report.round <= reported_.round)) {
    return;
  }
  reported_ = {report.instance, report.round};
  std::string output;
  if (is_failure(report) && options_.output.writes_files()) {
    const cause& first = *report.root_cause;
    const bool is_here = first.node == identity_.node && first.round == workers_round_;
    const bool has_file =
        is_here && first.local_rank &&
        !log_folder_.route(options_.output, *first.local_rank, log::output_stream::errors, "")
             .file.empty();
    if (has_file) {
      output = log_folder_.attempt() + "/" + std::to_string(*first.local_rank);
    }
  }
  const std::string reached = report.round == workers_round_ ? evidence_->reached() : "";
  summary_.add(report, members_, reached);
  vault_->judge(report);
  evidence_->judge(report.round, is_failure(report));
  tell_hook(events_.over(report, output));
  const evidence::saved_evidence known = evidence_->of(report.round);
  if (is_worth_a_box(report)) {
    const bool is_whole = report.group_world_size <= nodes_with_boxes_max || events_.leads() ||
                          report.root_cause->node == identity_.node;
    say(note_level::warning,
        is_whole ? round_box(report, output, known.sentence, reached) : round_line(report));
    const bool is_shown = options_.log.least <= note_level::warning;
    if (report.is_last && is_shown) told_cause_ = core::describe(*report.root_cause);
  }
  if (report_file_ != 0) {
    log_files_.push(report_file_, report_json(report, {options_.run_id, identity_.node, output,
                                                       known.sentence, reached, known.folder}));
  }
}

// The report may have been lost with a connection.
void agent::tell_missed_cause(const core::leave& effect) {
  if (!effect.root_cause || effect.root_cause->round <= reported_.round) return;
  const bool is_told = console_.show_failure(*effect.root_cause);
  if (is_told && options_.log.least <= note_level::warning) {
    told_cause_ = core::describe(*effect.root_cause);
  }
}

// People look at the last line first, but what is printed a few lines above need not be repeated.
std::string agent::why_it_ended(const core::leave& effect) const {
  const bool is_told = effect.root_cause && !told_cause_.empty();
  if (!is_told || !effect.text.starts_with(told_cause_)) return effect.text;
  const round_number round = std::max(effect.root_cause->round, reported_.round);
  const std::string text =
      "round " + std::to_string(round) + " failed; its root cause is shown above";
  // The box also shows the rest: "all 3 restarts are used".
  return round == reported_.round ? text : text + effect.text.substr(told_cause_.size());
}

// No summary if the run goes on without this node, or this node never took part.
void agent::tell_end_of_run(const core::leave& effect) {
  tell_hook(events_.left(effect.exit_code, effect.text));
  leave_error_file(effect);
  if (summary_.is_worth_telling()) say(note_level::info, summary_.text());
}

// Tells the program that has started this agent, for any kind of failure.
void agent::leave_error_file(const core::leave& effect) {
  if (effect.exit_code == 0 || !own_error_file_.is_wanted()) return;
  run_end end;
  end.text = effect.text;
  end.root_cause = effect.root_cause;
  const auto& first = effect.root_cause;
  if (first && first->node == identity_.node && first->round == workers_round_) {
    const auto found = recorded_.find(static_cast<pid_t>(first->process));
    if (found != recorded_.end()) end.recorded = found->second;
  }
  end.unix_seconds = std::time(nullptr);
  own_error_file_.write(error_file_of_run(end));
}

void agent::start_hook() {
  if (options_.on_event.empty()) return;
  hook_ = make_hook("on-event", options_.on_event, hook_options().limit);
}

// `name` is the option without its dashes.
std::unique_ptr<hook_runner> agent::make_hook(const std::string& name, const std::string& command,
                                              duration limit) {
  reaper_.expect_strangers();  // processes that a hook leaves in their own session are the user's
  hook_options values;
  values.name = "--" + name;
  values.command = command;
  values.environment = to_entries(environment_);
  values.prefix = "[" + identity_.node + ":" + name + "] ";
  values.limit = limit;
  return std::make_unique<hook_runner>(
      context_.get_executor(), spawner_, mux_, &guardian_, std::move(values),
      [this](const std::string& line) { say(note_level::warning, line); });
}

void agent::start_trainer_status() {
  auto server = kubernetes::find_trainer_server(environment_);
  if (!server) return;
  kubernetes::trainer_status::outside given;
  given.newest_output = [this] { return workers_ ? workers_->words_of(0).errors : std::string(); };
  given.failed = [this](const std::string& problem) { say(note_level::warning, problem); };
  trainer_ = std::make_unique<kubernetes::trainer_status>(context_.get_executor(),
                                                          std::move(*server), std::move(given));
}

void agent::tell_hook(const std::vector<run_event>& events) {
  for (const run_event& event : events) {
    if (trainer_) trainer_->tell(event);
  }
  if (!hook_) return;
  for (const run_event& event : events) {
    std::string what(to_string(event.kind));
    if (event.kind != run_event_kind::ended) what += " of round " + std::to_string(event.round);
    hook_->run({std::move(what), event_json(event, options_.run_id, identity_.node)});
  }
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
