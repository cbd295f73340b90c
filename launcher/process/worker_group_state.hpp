// The state of a worker_group beside its rules. Internal to worker_group*.cpp: worker_group.cpp
// passes events to the machine, carries out its effects, and calls the handlers.
//
// Thread rule: the main thread.
#pragma once

#include "launcher/log/output_tail.hpp"
#include "launcher/process/background_task.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/process/worker_group_machine.hpp"

#include <boost/asio/steady_timer.hpp>

#include <deque>
#include <optional>
#include <utility>

namespace ddprun::launcher {

struct worker_group::worker {
  explicit worker(worker_command values) : command(std::move(values)) {}

  worker_command command;
  pid_t pid = -1;  // of the newest attempt
  worker_end end;
  launcher::output_tail output_tail;
  launcher::output_tail errors_tail;
  std::uint64_t said_bytes = 0;            // on both streams
  log_mux::source_id sources[2] = {0, 0};  // 0: has ended, or is released
  // How long our own reader had held back each source by the worker's end.
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
        timer(executor) {}

  // In worker_group.cpp.
  void hear(const workers::event& what);
  void step(workers::event what);
  void deliver();
  void deliver_later();
  void arm_timer();

  // Effects.
  void apply(const workers::find_program& effect);
  void apply(const workers::forget_search& effect);
  void apply(const workers::spawn& effect);
  void apply(const workers::signal_group& effect);
  void apply(const workers::hurry_pipes& effect);
  void apply(const workers::release_pipes& effect);
  void apply(const workers::ask_reader& effect);
  void apply(const workers::reap& effect);
  void apply(const workers::look_at_groups& effect);
  void apply(const workers::look_at_children& effect);
  void apply(const workers::count_strays& effect);
  void apply(const workers::kill_strays& effect);
  void apply(const workers::forget_group& effect);
  void apply(const workers::tell_all_started& effect);
  void apply(const workers::tell_short_of& effect);
  void apply(const workers::tell_left_behind& effect);
  void apply(const workers::tell_strays_stay& effect);
  void apply(const workers::tell_all_ended& effect);
  void apply(const workers::tell_start_failed& effect);
  void apply(const workers::tell_not_started& effect);
  void apply(const workers::tell_ended& effect);
  workers::children_seen find_children(workers::place place);
  spawn_handlers handlers_of(workers::place place);
  void attach(workers::place place, workers::output_pipe which, unique_fd pipe);
  void on_exit(workers::place place, exit_status status);
  void on_left(workers::place place);
  void tell_end(workers::place place);

  boost::asio::any_io_executor executor;
  spawner& spawner_;
  log_mux& mux;
  guardian* guardian_;
  stray_reaper* strays;
  options settings;

  std::optional<workers::worker_group_machine> machine;  // none before start()
  std::vector<worker> workers;
  std::deque<workers::event> heard;  // answers that came during a step
  workers::effects effects;          // of the current step
  bool stepping = false;
  bool was_signalled = false;

  using word = std::function<void(const events&)>;
  std::shared_ptr<const events> handlers;
  std::deque<word> words;  // delivered when all effects are carried out
  bool delivering = false;

  background_task<std::optional<std::string>> search;
  std::string program;  // of the worker to start next
  std::string found_name, found_path,
      found;                         // the last program, and the PATH in which it was found
  std::vector<pid_t> strays_left;    // at the last kill_strays
  std::vector<pid_t> children_left;  // at the last look for children
  std::vector<pid_t> kept;           // reported as left alone

  boost::asio::steady_timer timer;
  std::optional<workers::time_point> armed_for;
};

}  // namespace ddprun::launcher
