// The round_workers are this node's workers, round by round: one worker_group at a time, and what
// has to be found out before an end can be reported. A worker that failed by itself may have
// written its exception to its error file, which is read first; and a SIGKILL may be the kernel's,
// for lack of memory.
//
// Thread rule: the main thread; callbacks are called from the executor, except that `say` may come
// from inside a call. Ownership: the references must outlive it. Destroying it kills workers that
// live, as worker_group does, and removes error files that nothing else would remove.
#pragma once

#include "launcher/agent/busy_watch.hpp"
#include "launcher/agent/file_reader.hpp"
#include "launcher/log/log_mux.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/process/spawner.hpp"
#include "launcher/process/stray_reaper.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

class round_workers {
 public:
  struct options {
    std::string node;                                           // this node's label
    std::uint32_t worker_count = 1;                             // of this node
    std::optional<duration> children_grace = duration::zero();  // none: children are left alone
    bool removes_error_files = false;                           // they are in no log folder
  };
  // What it uses. `guard` and `strays` may be null, as for worker_group.
  struct system {
    spawner& spawn;
    log_mux& mux;
    guardian* guard = nullptr;
    stray_reaper* strays = nullptr;
    oom_watch& oom_kills;
  };
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<void(round_number round)> all_started;
    // A worker that was started has ended; its error file is not read yet.
    std::function<void(round_number round, const worker_end& end)> ended;
    // Why it has ended, as far as its output, its error file (empty: none) and the kernel say.
    std::function<void(core::worker_ended event, const worker_end& end,
                       const std::string& error_file)>
        explained;
    // A worker was not started.
    std::function<void(core::worker_ended event)> not_started;
    // The last end was reported, and the workers' last output is still available.
    std::function<void(round_number round)> all_ended;
    // Workers that were asked to end are busy; see busy_watch.
    std::function<void(round_number round)> busy;
  };

  round_workers(boost::asio::any_io_executor executor, const system& with, options values,
                outside told);
  ~round_workers();
  round_workers(const round_workers&) = delete;
  round_workers& operator=(const round_workers&) = delete;

  // Starts the workers of a round. `error_files`: the files of torch's @record, by local rank; none
  // are wanted. The last round's are removed.
  void begin(round_number round, std::vector<worker_command> commands,
             std::vector<std::string> error_files);
  // No worker of that round was started, and none will be: reported for each, from the executor.
  void never_start(round_number round);
  // The workers of that round are asked to end, whether they run or not: what they do from now on
  // is no failure of theirs.
  void expect_end(round_number round);
  // Call it before they are asked: until they have ended it is reported whether they are busy.
  void watch_stop() { busy_watch_.start(); }
  // Kills what lives without waiting. Call it when the loop runs no more: ends that were reported
  // before may still be explained from it.
  void abandon() { group_.reset(); }

  round_number round() const { return round_; }  // the newest that was begun; 0: none
  bool run(round_number round) const { return group_ != nullptr && round_ == round; }
  // The workers that run were asked to end.
  bool are_ending() const { return stopped_round_ == round_; }
  // Null: none run.
  worker_group* group() const { return group_.get(); }
  // Empty if none run.
  std::vector<worker_group::live_worker> live() const;
  worker_group::words words_of(std::uint32_t rank) const;

 private:
  worker_group::events events_of(round_number round);
  void is_over(round_number round, const worker_end& end);
  void explain(round_number round, const worker_end& end, const std::string& error_file);
  core::worker_ended event_of(round_number round, const worker_end& end,
                              const std::string& recorded) const;
  void name_strays(const std::vector<pid_t>& strays);
  void remove_error_files();

  boost::asio::any_io_executor executor_;
  system system_;
  options options_;
  outside outside_;
  file_reader file_reader_;
  busy_watch busy_watch_;                // of stopped_round_
  std::unique_ptr<worker_group> group_;  // none: no worker of round_ runs
  round_number round_ = 0;
  round_number stopped_round_ = 0;        // the newest whose workers were asked to end
  std::vector<std::string> error_files_;  // of group_, by local rank
  lifetime alive_;
};

}  // namespace ddprun::launcher
