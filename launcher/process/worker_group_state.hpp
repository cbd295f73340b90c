// What a worker_group remembers. Internal to worker_group*.cpp: worker_group.cpp starts and
// signals, worker_group_end.cpp sees the workers off.
//
// Thread rule: the main thread.
#pragma once

#include "launcher/log/output_tail.hpp"
#include "launcher/process/errand.hpp"
#include "launcher/process/worker_group.hpp"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun {

// The life of a worker. Its place in the list never changes.
enum class worker_group::worker_phase {
  waiting,   // for its turn
  starting,  // forked; has not executed its program yet
  running,
  draining,  // has ended; its pipes, and after a success its children, have a moment
  dying,     // SIGKILL is sent to its group, and the leader reaped; some of it still runs
  done,
};

struct worker_group::worker {
  worker(const boost::asio::any_io_executor& executor, worker_command values)
      : command(std::move(values)), timer(executor) {}

  worker_command command;
  pid_t pid = -1;
  worker_phase phase = worker_phase::waiting;
  worker_end end;
  output_tail tail;
  log_mux::source_id sources[2] = {0, 0};  // 0: at its end, or released
  boost::asio::steady_timer timer;         // of the draining
  // For how long our own reader had held back each source when the worker ended.
  std::chrono::steady_clock::duration held_back[2] = {};
};

struct worker_group::state : std::enable_shared_from_this<worker_group::state> {
  state(boost::asio::any_io_executor on, spawner& spawn, log_mux& to, guardian* guard,
        stray_reaper* reaper, options values)
      : executor(std::move(on)),
        spawner_(spawn),
        mux(to),
        guardian_(guard),
        strays(reaper),
        settings(values),
        search(executor),
        retry_timer(executor),
        look_timer(executor) {}

  void start_next();
  void fork_one(worker& one, const std::string& program);
  void not_startable(worker& one, const start_failure& why);
  bool tries_again(worker& one, const start_failure& why);
  void abandon();
  void attach(worker& one, int index, unique_fd pipe);
  void release(worker& one);
  void hurry(const worker& one);
  std::chrono::steady_clock::duration held_back(const worker& one) const;

  void on_executed(worker& one);
  void on_exit(worker& one, exit_status status);
  void on_drain_limit(worker& one);
  void check_drained(worker& one);
  void end_group(worker& one);
  void look_anew();
  void look();
  bool has_strays();
  void look_again();
  void on_dead(worker& one);
  void tell(std::function<void(const events&)> word);
  void tell_last();
  void wait(worker& one, std::chrono::milliseconds time, void (state::*then)(worker&));
  void later(void (state::*what)());

  bool is_last() const { return last_word != nullptr; }
  bool any_in(worker_phase from, worker_phase to) const {
    return std::any_of(workers.begin(), workers.end(),
                       [&](const auto& one) { return one->phase >= from && one->phase <= to; });
  }

  bool reads_blocked(const worker& one) const {
    return mux.waits(one.sources[0]) || mux.waits(one.sources[1]);
  }

  boost::asio::any_io_executor executor;
  spawner& spawner_;
  log_mux& mux;
  guardian* guardian_;
  stray_reaper* strays;
  options settings;
  std::shared_ptr<const events> handlers;
  std::vector<std::shared_ptr<worker>> workers;
  std::size_t next = 0;    // to be started
  std::size_t untold = 0;  // workers of which nothing final has been told
  bool stopping = false;   // a signal was sent
  bool killing = false;    // that was SIGKILL

  errand<std::optional<std::string>> search;
  std::string found_name, found_path, found;  // the last program, and where it was looked for

  boost::asio::steady_timer retry_timer;  // while `short_since`
  std::optional<std::chrono::steady_clock::time_point> short_since;

  boost::asio::steady_timer look_timer;
  std::chrono::steady_clock::time_point look_since;
  std::function<void(const events&)> last_word;  // held back while strays live
  bool named_strays = false;
};

}  // namespace ddprun
