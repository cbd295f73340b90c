// The evidence_keeper finds out why a round of this node's workers fails: it asks ranks that stand
// still where they do before they are ended, says which of them hangs, and keeps what is known of
// any round that fails (failed_round.hpp) in a folder (evidence_writer.hpp).
//
// Gathering goes on beside --failure-grace: it begins when a worker here says that it has waited in
// vain. A stop waits for it only where a rank stands still; a kill never does.
//
// Thread rule: the main thread; it calls what it was given from inside its calls and from the loop.
// Ownership: the spawner must outlive it; destroy it before its io_context. Errors: a line; the run
// goes on.
#pragma once

#include "launcher/evidence/evidence_writer.hpp"
#include "launcher/evidence/failed_round.hpp"
#include "launcher/evidence/progress_files.hpp"
#include "launcher/evidence/rank_watch.hpp"
#include "launcher/evidence/stack_spawner.hpp"
#include "launcher/process/worker_group.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/agent/agent.hpp"

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
  duration gathering_limit{};  // of one gathering; 0: nothing is gathered, nor kept
  bool names_hangs = true;
  std::optional<duration> hang_limit;  // after which a rank is ended; none: it never is
  environment_map environment;         // of the workers; with it, NCCL's address for RAS
  std::uint32_t worker_count = 1;
  bool is_python = true;    // the workers are scripts
  std::string report_file;  // the folder is beside it where there are no log files; empty: none
  std::string node;         // as its name has it
};

class evidence_keeper {
 public:
  struct outside {
    std::function<void(note_level level, const std::string& text)> say;
    std::function<std::vector<worker_group::live_worker>()> living;  // workers
    std::function<worker_group::words(std::uint32_t rank)> words_of;
    std::function<void(int signal)> signal_workers;
    std::function<void(pid_t worker)> kill;                  // it, and its group
    std::function<void(std::optional<stall> seen)> stalls;   // see rank_watch
    std::function<std::vector<std::string>()> memory_files;  // with counts, of cgroups
    std::function<std::string()> attempt_folder;  // with the round's log files; empty: none
  };

  evidence_keeper(boost::asio::any_io_executor executor, spawner& inner, keeper_options options,
                  outside with);
  ~evidence_keeper();
  evidence_keeper(const evidence_keeper&) = delete;
  evidence_keeper& operator=(const evidence_keeper&) = delete;

  // What starts workers that can be asked; the inner one where they cannot.
  spawner& asking_spawner();
  // Of it: with which signal ranks are asked is known where this is not empty.
  std::string stack_site() const;

  // By local rank, for the workers of a round that is about to begin.
  std::vector<std::string> empty_progress_files();
  // The steps that this node's ranks have said; empty: none.
  std::string reached() const;

  // A round begins; `sees_all`: it has no other node.
  void begin_round(round_number round, bool sees_all);
  // All its workers run. Of a round that was stopped before that nothing is asked: its stop does
  // not wait.
  void all_started();
  void note_end(round_number round, const worker_end& end);
  // A worker of it has failed. One that has waited in vain for another says so long before the
  // others are stopped.
  void hear_failure(round_number round, bool has_waited);
  // All workers have ended. To be called while their last words are known still.
  void all_ended(round_number round);

  // The round is to end, whether its workers run or not.
  void round_is_stopped(round_number round) { stopped_round_ = round; }
  // Signals the workers, and takes down what is known of them: at once, or when its ranks have said
  // where they stand. A newer order replaces one that still waits for that.
  void stop(const core::stop_workers& order, bool is_asked_for);
  void forget_stop() { held_stop_.reset(); }
  // The workers were killed.
  void take_facts(round_number round);

  // What the nodes of the round have said together; one of our ranks may have moved since.
  void name_hung(const core::name_hung& found);
  // It is ended for `why` by somebody else.
  void count_as_hung(pid_t worker, const std::string& why) { hung_[worker] = why; }
  void name_hang(const worker_end& end, cause& why) const;
  // Of a worker of that round that has failed.
  void name_gpu_fault(round_number round, cause& why);

  // What the report says of the round: what is known of it is kept if it has failed.
  void judge(round_number round, bool is_failure);
  // What is kept of that round; empty: nothing.
  saved_evidence of(round_number round) const;
  // Calls `then` when all is kept: at once, or when the gathering that is under way is done and the
  // disk has had two seconds.
  void when_kept(std::function<void()> then);

 private:
  std::vector<watched_rank> living_ranks() const;
  void add_words(rank_evidence& known) const;
  void gather(std::function<void()> then);
  bool holds(const core::stop_workers& order, bool is_asked_for);
  void take_evidence(round_number round);
  bool keeps_evidence() const;
  std::string folder_of(round_number round) const;
  void hear_hang(const hang_verdict& verdict, duration still_for);
  void hear_stand(const std::string& sentence, duration still_for);
  void end_hung(std::uint32_t rank, const std::string& text);

  spawner& inner_;
  keeper_options options_;
  outside outside_;
  evidence_writer writer_;
  failed_round failed_;
  std::unique_ptr<stack_spawner> stacks_;     // none: workers cannot be asked
  std::unique_ptr<progress_files> progress_;  // none: nobody has asked for it
  std::unique_ptr<rank_watch> watch_;         // likewise
  round_number round_ = 0;
  std::string folder_;  // for it; empty: nothing of this run is kept in files
  bool sees_all_ = false;
  round_number stopped_round_ = 0;               // the newest whose workers were asked to end
  round_number ended_round_ = 0;                 // the newest whose workers have all ended
  std::optional<round_number> gathers_for_;      // ranks are asked where they stand
  std::optional<core::stop_workers> held_stop_;  // until evidence is there
  std::function<void()> kept_;                   // waits for the gathering; empty: nobody does
  std::map<pid_t, std::string> hung_;            // those that were ended for it, and the words
};

}  // namespace ddprun::launcher::evidence
