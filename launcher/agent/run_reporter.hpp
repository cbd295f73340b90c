// The run_reporter tells the people at this node, and the programs that ask for it, how the run
// goes: the line at a round's start, the report of each round that is over, and at the end why this
// node leaves. What it knows of earlier rounds decides what is worth saying again.
//
// It writes to the console, to --report's file, and to the launcher's own $TORCHELASTIC_ERROR_FILE,
// and hands out the run's events. It decides nothing about the run.
//
// Thread rule: the main thread; callbacks are called from inside its calls. Ownership: the console
// must outlive it; destroy it before its io_context.
#pragma once

#include "launcher/output/console.hpp"
#include "launcher/output/own_error_file.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/report_json.hpp"
#include "launcher/report/round_text.hpp"
#include "launcher/report/run_events.hpp"
#include "launcher/report/run_summary.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

class run_reporter {
 public:
  struct options {
    std::string node;                     // this node's label
    note_level least = note_level::info;  // what the console shows
    std::uint32_t restarts_max = 0;
    own_error_file::options error_file;
  };
  struct outside {
    std::function<void(const std::string& line)> save;  // to --report's file; empty: there is none
    std::function<void(const run_event& event)> tell;
  };

  run_reporter(boost::asio::any_io_executor executor, console& out, options values, outside with);

  // A round begins here. `commands` are shown at the level debug, each once until it changes.
  void begin_round(const core::start_workers& round, const std::vector<worker_command>& commands);
  // All workers of the round run. `living` are their processes.
  void all_started(round_number round, const std::vector<worker_group::live_worker>& living);
  void hear_hang(const std::optional<hung_rank>& who);
  // What that worker's error file contains; it may become the cause of the whole run.
  void keep_error_file(pid_t worker, const std::string& content);
  // A line of the machine's; the last one is not repeated when this node leaves.
  void note(note_level level, const std::string& text);

  // False: that round, or a newer one, was reported before. A report comes again with each new
  // connection.
  bool is_new(const round_report& report) const;
  void report(const round_report& report, const report_origin& from);

  // This node leaves. Both are called at most once, and only one of them.
  void tell_leaving(const core::leave& how);
  void tell_end_before_start(int exit_code, const std::string& text);

  // Calls `then` when the own error file is written: at once, or from the executor.
  void when_written(std::function<void()> then) { error_file_.when_written(std::move(then)); }

 private:
  void say(note_level level, const std::string& text) { console_.say(level, text); }
  bool shows(note_level level) const { return options_.least <= level; }
  void tell(const std::vector<run_event>& events) const;
  void tell_commands(const std::vector<worker_command>& commands);
  void tell_missed_cause(const core::leave& how);
  std::string why_it_ended(const core::leave& how) const;
  void tell_end(const core::leave& how);
  void leave_error_file(const core::leave& how);

  console& console_;
  options options_;
  outside outside_;
  own_error_file error_file_;
  restarts_heard restarts_heard_;
  run_summary summary_;
  run_events events_;
  round_number round_ = 0;  // the newest here
  std::string members_;     // of that round
  struct reported_round {
    instance_id instance = 0;
    round_number round = 0;
  } reported_;                              // the newest
  std::string told_cause_;                  // of the round that has ended the run; empty: not shown
  std::string last_note_;                   // that was shown
  std::vector<std::string> told_commands_;  // by local rank
  std::map<pid_t, std::string> error_files_;  // of this round's workers
};

}  // namespace ddprun::launcher
