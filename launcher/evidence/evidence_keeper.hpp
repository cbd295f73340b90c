// The evidence_keeper finds out why a round of this node's workers fails. Before ranks that stand
// still are stopped, it asks them where they are; it names the rank that hangs; and it saves what
// is known of any failed round (failed_round.hpp) in a folder (evidence_writer.hpp).
//
// Gathering runs during --failure-grace: it begins when a worker of this node reports that it has
// waited in vain. A stop waits for it only if a rank stands still; SIGKILL is never delayed.
//
// Thread rule: the main thread; callbacks come from inside its calls and from the loop. Ownership:
// the spawner must outlive it; destroy it before its io_context. Errors are printed as a line, and
// the run goes on.
#pragma once

#include "launcher/evidence/evidence_writer.hpp"
#include "launcher/evidence/failed_round.hpp"
#include "launcher/evidence/progress_files.hpp"
#include "launcher/evidence/rank_watch.hpp"
#include "launcher/evidence/server_folder.hpp"
#include "launcher/evidence/stack_spawner.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/agent/agent_machine.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

struct keeper_options {
  duration gathering_limit{};     // of one gathering; 0: no evidence is gathered or saved
  bool asks_collectives = false;  // of each rank's PyTorch
  bool names_hangs = true;
  std::optional<duration>
      hang_limit;               // kills a rank that hangs this long; none: ranks are never killed
  environment_map environment;  // of the workers, with NCCL_RAS_ADDR
  std::uint32_t worker_count = 1;
  bool is_python = true;    // the workers are scripts
  std::string report_file;  // the folder is beside it where there are no log files; empty: none
  std::string node;         // as its name has it
  decltype(watch_options::ask) ask = &evidence::gather;
};

class evidence_keeper {
 public:
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<std::vector<worker_group::live_worker>()> living;
    std::function<worker_group::words(std::uint32_t rank)> words_of;
    std::function<void(int signal)> signal_workers;
    std::function<void(pid_t worker)> kill;                 // and its process group
    std::function<void(std::optional<stall> seen)> stalls;  // see rank_watch
    // Told to the user: a rank hangs; none: one of this node's ranks moves again. Either may come
    // twice.
    std::function<void(const std::optional<hung_rank>& who)> hangs;
    std::function<std::vector<std::string>()> memory_files;  // with counts, of cgroups
    std::function<std::string()> attempt_folder;  // with the round's log files; empty: none
  };

  evidence_keeper(boost::asio::any_io_executor executor, spawner& inner, keeper_options options,
                  outside with);
  ~evidence_keeper();
  evidence_keeper(const evidence_keeper&) = delete;
  evidence_keeper& operator=(const evidence_keeper&) = delete;

  // Starts workers that can be asked; it is the inner spawner if workers cannot be asked.
  spawner& asking_spawner();
  // The path of the code that makes workers answer; empty: they cannot be asked.
  std::string stack_site() const;
  // Of a worker that begins otherwise; nothing where that is empty.
  warm::answer_options answers() const;

  // Returns paths by local rank, for the workers of a round that is about to start.
  std::vector<std::string> empty_progress_files();
  // The steps that this node's ranks have reported; empty: none.
  std::string reached() const;

  // A round begins. `sees_all`: the round has no other node.
  void begin_round(round_number round, bool sees_all);
  // All workers of the round run. A round that was stopped earlier has no ranks to ask, and its
  // stop does not wait.
  void all_started();
  void note_end(round_number round, const worker_end& end);
  // A worker of the round has failed. `has_waited`: it has waited in vain for another rank, which
  // it reports long before the others are stopped.
  void hear_failure(round_number round, bool has_waited);
  // All workers have ended. Call it while their last output is still available.
  void all_ended(round_number round);

  // The round is to end, whether its workers run or not.
  void round_is_stopped(round_number round) { stopped_round_ = round; }
  // Signals the workers and saves what is known of them: at once, or after the ranks have answered.
  // A newer order replaces one that still waits for the answers.
  void stop(const core::stop_workers& order, bool is_asked_for);
  void forget_stop() { held_stop_.reset(); }
  // The workers were killed without a stop.
  void take_facts(round_number round);

  // The daemon has compared all nodes of the round and names a rank. One of our ranks may have
  // moved since. A rank of another node is only reported.
  void name_hung(const core::name_hung& found);
  // The caller kills this worker because it hangs, for the reason `why`.
  void count_as_hung(pid_t worker, const std::string& why) { hung_[worker] = why; }
  void name_hang(const worker_end& end, cause& why) const;
  // Adds a GPU fault from the kernel's log to the failure of a worker of that round.
  void name_gpu_fault(round_number round, cause& why);

  // Of that round.
  bool suspects_gpu(round_number round) { return round == round_ && failed_.suspects_gpu(); }

  // The round's report is here: what is known of the round is saved if it has failed.
  void judge(round_number round, bool is_failure);
  // What is saved of that round; empty: nothing.
  saved_evidence of(round_number round) const;
  // Calls `then` when everything is saved: at once, or when the gathering in progress is done and
  // the disk has had two seconds.
  void when_kept(std::function<void()> then);

 private:
  std::vector<watched_rank> living_ranks() const;
  void add_output(rank_evidence& known) const;
  void gather(std::function<void()> then);
  bool holds(const core::stop_workers& order, bool is_asked_for);
  void take_evidence(round_number round);
  bool keeps_evidence() const;
  std::string folder_of(round_number round) const;
  void hear_hang(const hang_verdict& verdict, duration still_for);
  void hear_stand(const std::string& sentence, duration still_for);
  // As the newest evidence has it.
  bool waits_in_kernel(std::uint32_t rank) const;
  void end_hung(std::uint32_t rank, const std::string& text);

  spawner& inner_;
  keeper_options options_;
  outside outside_;
  evidence_writer writer_;
  failed_round failed_;
  std::unique_ptr<server_folder> servers_;    // none: nothing of Python is asked
  std::unique_ptr<stack_spawner> stacks_;     // none: workers cannot be asked
  std::unique_ptr<progress_files> progress_;  // none: workers cannot open our files
  std::unique_ptr<rank_watch> watch_;         // none: no evidence and no hang is wanted
  round_number round_ = 0;
  std::string folder_;  // for round_; empty: this run saves no files
  bool sees_all_ = false;
  round_number stopped_round_ = 0;               // the newest whose workers were asked to end
  round_number ended_round_ = 0;                 // the newest whose workers have all ended
  std::optional<round_number> gathers_for_;      // the round whose ranks are being asked
  std::optional<core::stop_workers> held_stop_;  // waits for the evidence
  std::function<void()> kept_;                   // runs after the gathering; empty: no caller waits
  std::map<pid_t, std::string> hung_;  // workers that were killed because they hang, and why
};

}  // namespace ddprun::launcher::evidence
