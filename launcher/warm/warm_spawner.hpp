// The warm_spawner starts Python workers from spares, if there are any: processes that have
// imported what the script imports, and run it within milliseconds. All else is passed to the inner
// spawner.
//
// The first worker of the node (LOCAL_RANK 0) is started with a recorder of its imports. When the
// record has not grown for a moment, a zygote imports the modules, proves that a fork of it
// computes, and makes spares. The workers of the next round take them, and new ones are made. No
// round waits for that: without a spare, or if anything differs from what the zygote has seen
// (ddprun_zygote.py), a worker is started cold; a spare that does not begin is killed.
// Spares that have imported a file which has changed since are let go as a round ends, or with the
// first start after it (imports_check.hpp). The start of a spare that dies meanwhile has failed for
// a lack that passes (start_stage::spare): whoever asked for the worker asks again.
//
// The zygote and the spares are the first to go when memory gets short: they are ended early
// (memory_watch.hpp), and the OOM killer prefers them (ddprun_process.py). They are made again when
// there is room.
//
// A spare is a child of this process before this class hears of it, so its end, its process group
// and its stray children are handled as a worker's.
//
// Thread rule, ownership: see spawner.hpp; the references must outlive it. Destroying it kills the
// zygote and the spares, not the workers.
#pragma once

#include "launcher/log/log_mux.hpp"
#include "launcher/process/background_task.hpp"
#include "launcher/process/guardian.hpp"
#include "launcher/process/spawner.hpp"
#include "launcher/warm/answer_options.hpp"
#include "launcher/warm/cold_comparison.hpp"
#include "launcher/warm/imports_check.hpp"
#include "launcher/warm/learnt_imports.hpp"
#include "launcher/warm/memory_watch.hpp"
#include "launcher/warm/recording.hpp"
#include "launcher/warm/zygote.hpp"
#include "rendezvous/base/lifetime.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::warm {

struct warm_options {
  std::uint32_t spares = 1;             // how many are kept waiting
  std::vector<std::string> rank_names;  // variables that differ between workers and rounds
  std::string prefix;                   // of the zygote's output, "[node-a:warm] "
  std::function<int()> cgroup;          // the workers'; see spawn_request
  // SIGKILL has ended a spare or the zygote, and it was not ours: the kernel's, or somebody else's.
  std::function<void()> killed = [] {};
  answer_options answers;  // how a worker is asked where it stands
  std::string stack_site;  // with which a cold one begins then; empty: with none
  // The record must not have grown for so long; doubled up to look_pause_max while it does not.
  std::chrono::milliseconds look_pause{500};
  std::chrono::milliseconds look_pause_max{8000};
  // After so long the record counts as complete, and imports are not recorded any more.
  std::chrono::seconds rest{60};
  // From the message with the work until a spare is about to run the script. A spare that takes
  // longer is killed, which fails its round.
  std::chrono::seconds begin_limit{10};
  // From the start of workers to the next spare, which must not slow them down.
  std::chrono::milliseconds refill_pause{1000};
  cold_comparison::options comparison;
  imports_check::options check;
  memory_watch::options memory;
  learnt_imports learnt;  // of this command
};

class warm_spawner final : public spawner {
 public:
  using say_handler = std::function<void(const std::string& line)>;

  warm_spawner(boost::asio::any_io_executor executor, spawner& inner, guardian& guard, log_mux& mux,
               warm_options options, say_handler say);
  ~warm_spawner() override;
  warm_spawner(const warm_spawner&) = delete;
  warm_spawner& operator=(const warm_spawner&) = delete;

  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override;
  bool adopt(pid_t pid, ended_handler ended) override;
  void signal_group(pid_t pid, int signal) override;
  void reap(pid_t pid) override;
  bool reap_within(pid_t pid, duration limit) override;
  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override;
  bool owns(pid_t pid) const override;

  // Does the imports of the script's last life, if they are known, before there is a round. `like`
  // is a worker without the variables of a rank. If the worker that comes has another program, the
  // imports are not used.
  void look_up(const spawn_request& like);

  std::size_t waiting() const { return spares_.size(); }
  bool looks_at_imports() const { return check_.under_way(); }

 private:
  struct worker;
  struct spare {
    pid_t pid;
    unique_fd orders;
  };

  // warm_spawner.cpp: workers.
  bool may_be_warm(const spawn_request& request);
  std::optional<spawned_child> give(const spawn_request& request, const spawn_handlers& handlers);
  void check_imports();
  void take_check(const std::string& why_cold, bool is_of_known);
  void record_if_first(const worker& cold, unique_fd& work);
  void await_report(const std::shared_ptr<worker>& given);
  enum class report_state { more, open, over };
  report_state read_report(worker& given);
  void take_report(worker& given);
  void end_late(const std::shared_ptr<worker>& given);
  void child_ended(pid_t pid, exit_status status);
  void spare_ended(exit_status status);
  void judge_early_end(const worker& over, exit_status status);
  spawn_result spawn_cold(const spawn_request& request, spawn_handlers handlers);

  // warm_imports.cpp: the record, the zygote, the spares.
  bool is_to_be_recorded(const spawn_request& request) const;
  void tell(const std::string& line);
  bool make_record(const spawn_request& request);
  void keep_record();
  void forget_record();
  void begin_known(spawn_request like, const learnt_list& list);
  void look_at_record(std::chrono::milliseconds pause);
  void load();
  void start_zygote();
  zygote::events zygote_events();
  void take_ready(std::size_t modules, const std::string& variable, const std::string& files);
  void take_spare(pid_t pid, unique_fd orders);
  void refill();
  void refill_later();
  void lack_spare(const std::string& why);
  void let_spares_go();
  void forget_imports();
  void begin_anew();
  void give_up(const std::string& why);
  void turn_off(const std::string& why);
  memory_watch::events memory_events();
  void make_room(const std::string& why);
  void use_room();

  boost::asio::any_io_executor executor_;
  spawner& inner_;
  guardian& guardian_;
  log_mux& mux_;
  warm_options options_;
  say_handler say_;

  std::optional<recording> record_;     // of the imports of the first worker
  std::uint64_t record_bytes_ = 0;      // at the last look
  bool is_recorded_in_look_ = false;    // a cold worker writes to it, begun during the newest look
  std::uint64_t loaded_bytes_ = 0;      // of the list that the zygote was told to read
  std::optional<spawn_request> known_;  // the recorded worker
  std::set<std::string> excluded_;      // modules that must not be imported ahead
  std::unique_ptr<zygote> zygote_;
  time_point grown_at_{};         // when the record was last seen to grow
  bool is_complete_ = false;      // the record has not grown for `rest`
  bool is_of_last_life_ = false;  // the list is from the last life; no worker was started yet
  bool is_ready_ = false;         // the zygote can fork
  bool is_making_ = false;        // a spare is being made
  int failures_ = 0;              // consecutive, of spares
  std::string told_;              // the last line about the imports
  std::deque<spare> spares_;
  std::map<pid_t, std::shared_ptr<worker>> workers_;  // that were started warm
  std::vector<std::weak_ptr<worker>> held_;           // until what they have imported is looked at
  std::set<pid_t> let_go_;                            // spares that were killed
  bool is_off_ = false;
  imports_check check_;
  memory_watch memory_;
  std::unique_ptr<cold_comparison>
      suspicion_;  // a warm worker has failed at once, so the next ones are cold
  boost::asio::steady_timer look_timer_;
  boost::asio::steady_timer refill_timer_;
  background_task<learnt_answer> reading_;
  background_task<std::string> keeping_;
  lifetime alive_;
};

}  // namespace ddprun::launcher::warm
