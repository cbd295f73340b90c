// The rules of the workers of one round on this node: which worker is started when, what a signal
// does, when a worker is done, and when the last event about all of them may be reported.
// worker_group.hpp describes what its user sees; worker_life.hpp has the states of one worker.
//
// The machine is pure: `step` takes one event and its time, and appends the effects that the caller
// must carry out, in order. Workers are identified by their index in the list, never by a PID. A
// question among the effects is answered once, by the event that it names; the answer may come at
// any later time, even after other events.
//
// These rules do not limit the time of a stop: its caller asks again, with SIGKILL.
#pragma once

#include "launcher/process/start_failure.hpp"
#include "launcher/process/worker_life.hpp"
#include "rendezvous/base/machine_timers.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace ddprun::launcher::workers {

// Events.

struct start_asked {};
// SIGKILL cannot be ignored, and goes to strays, too.
struct stop_asked {
  int signal = 0;
};
struct program_found {
  place worker = 0;
};
// At any stage, including the search for its program. Only its pipes are left.
struct start_failed {
  place worker = 0;
  start_failure why;
};
struct executed {
  place worker = 0;
};
// The leader of the group has ended, and is a zombie until `reap`. Only after `executed`.
struct exited {
  place worker = 0;
  bool success = false;
};
// After a signal, instead of `exited`: it survives, but is not of this round any more.
struct left {
  place worker = 0;
};
struct pipe_ended {
  place worker = 0;
  output_pipe which = output_pipe::output;
};
// The answer to ask_reader.
struct reader_seen {
  place worker = 0;
  bool holds_back = false;  // our own reader does not take its output now
  duration held_back{};     // in total, since the worker's end
};
// The answer to look_at_groups: the groups in which no process runs.
struct groups_seen {
  std::vector<place> empty;
};
// The answer to look_at_children.
struct children_seen {
  place worker = 0;
  std::size_t in_group = 0;  // without the leader
  std::size_t strays = 0;    // outside the group, of this worker or another
};
// The answer to count_strays.
struct strays_counted {
  std::size_t left = 0;
};
// The answer to kill_strays: how many were still alive.
struct strays_seen {
  std::size_t left = 0;
};
// `next_deadline()` has come. Harmless at any time.
struct time_passed {};

using event = std::variant<start_asked, stop_asked, program_found, start_failed, executed, exited,
                           left, pipe_ended, reader_seen, groups_seen, children_seen,
                           strays_counted, strays_seen, time_passed>;

// Effects.

// What happens to processes that a successful worker has left behind.
enum class leftover_state {
  spared,   // they have their grace
  ended,    // the grace is over: SIGKILL comes next
  stopped,  // the round is stopped earlier: likewise
  kept,     // they are left alone
};

// Answered by program_found or start_failed.
struct find_program {
  place worker = 0;
};
// Cancels find_program; an answer is ignored.
struct forget_search {};
// Forks it, with two pipes; answered by executed or start_failed.
struct spawn {
  place worker = 0;
};
struct signal_group {
  place worker = 0;
  int signal = 0;
};
// The worker has ended: read its pipes even if our own reader is behind.
struct hurry_pipes {
  place worker = 0;
};
// Reads what is in its pipes now and closes them, even if another process holds the other ends; no
// pipe_ended follows.
struct release_pipes {
  place worker = 0;
};
struct ask_reader {
  place worker = 0;
};
// Releases the group's ID: only look_at_groups may use it later.
struct reap {
  place worker = 0;
};
struct look_at_groups {
  std::vector<place> workers;
};
// Asks what this worker has left running, while its leader is a zombie.
struct look_at_children {
  place worker = 0;
};
// Only if strays can be found.
struct count_strays {};
struct kill_strays {};
// No process of its group runs any more.
struct forget_group {
  place worker = 0;
};

// Events for the user of the group: for each worker exactly one of the last three.
struct tell_all_started {};
struct tell_short_of {
  start_failure why;
};
// What successful workers have left behind: one worker's processes, or strays of any. They are
// those of the last look; for `stopped`, those that exist now.
struct tell_left_behind {
  std::optional<place> worker;
  leftover_state what = leftover_state::spared;
};
struct tell_strays_stay {};  // those of the last look
struct tell_all_ended {};    // the last effect
struct tell_start_failed {
  place worker = 0;
  start_failure why;
};
struct tell_not_started {
  place worker = 0;
};
struct tell_ended {
  place worker = 0;
};

using effect =
    std::variant<find_program, forget_search, spawn, signal_group, hurry_pipes, release_pipes,
                 ask_reader, reap, look_at_groups, look_at_children, count_strays, kill_strays,
                 forget_group, tell_all_started, tell_short_of, tell_left_behind, tell_strays_stay,
                 tell_all_ended, tell_start_failed, tell_not_started, tell_ended>;
using effects = std::vector<effect>;

// The machine.

struct limits {
  duration drain{};  // for pipes that other processes hold open
  // For what a successful worker leaves behind, in its group or as strays, while nobody stops the
  // round; none: it is left alone.
  std::optional<duration> children = duration::zero();
  duration strays{};       // for the last event, if nobody has asked the workers to end
  duration shortage{};     // for trying again
  bool has_strays = true;  // strays can be found and killed
};

class worker_group_machine {
 public:
  worker_group_machine(limits values, std::size_t workers);

  // Applies one event, and appends effects to `to`; carry them out in order. Afterwards the next
  // deadline is later than `now`.
  void step(const event& what, time_point now, effects& to);

  std::optional<time_point> next_deadline() const;

  // It was forked, or is about to be, and some process of it may run.
  bool has_process(place worker) const { return lives_[worker].has_process(); }

  // The last event was reported. Further events have no effect.
  bool is_over() const { return over_; }

 private:
  template <typename Machine, typename Table>
  friend std::optional<ddprun::time_point> ddprun::next_due(const Machine&, const Table&);
  template <typename Machine>
  friend void ddprun::do_if_due(Machine&, const machine_timer<Machine>&);
  static std::span<const machine_timer<worker_group_machine>> timer_table();

  // The worker to start next, and what delays it.
  struct queue {
    place next = 0;
    bool searching = false;  // for the program of `next`
    bool closed = false;     // after a failure or a signal: none is started any more
    std::optional<time_point> short_since;
    std::optional<time_point> retry_at;
  };
  // Looks for what is left of groups, and for strays. One question at a time.
  struct looks {
    enum class question { none, groups, count, strays };
    question asked = question::none;
    time_point since{};
    std::optional<time_point> next;
  };

  // Start and stop.
  void handle(const start_asked& what);
  void handle(const stop_asked& what);
  void handle(const program_found& what);
  void handle(const start_failed& what);
  void handle(const executed& what);
  void start_next();
  void try_again();
  bool tries_again(const start_failed& what);
  void close_queue();

  // Ends, drained pipes, and strays.
  void handle(const exited& what);
  void handle(const left& what);
  void handle(const pipe_ended& what);
  void handle(const reader_seen& what);
  void handle(const groups_seen& what);
  void handle(const strays_counted& what);
  void handle(const strays_seen& what);
  void handle(const time_passed&) {}
  void judge_drained(place worker);
  std::optional<time_point> first_drain_until() const;
  void on_drain_limits();
  void on_drain_limit(place worker);
  void let_go(place worker);
  void end_group(place worker);
  void look_anew();
  void look();
  void look_for_strays();
  void kill_all_strays();
  void end_look(bool strays_live);

  // What a success leaves behind.
  void handle(const children_seen& what);
  bool spares_children(place worker) const;
  duration first_look() const;
  void look_for_children(place worker);
  void drain_on(place worker);
  void wait_for_children(place worker, std::size_t left);
  void end_children(place worker);
  void leave_children(place worker);
  bool spares_strays() const;
  void tell_stopped();
  bool is_past(grace& of, std::optional<place> worker);

  void tell(effect word);
  void emit(effect what) { effects_->push_back(std::move(what)); }
  void check() const;

  limits limits_;
  worker_lives lives_;
  queue queue_;
  looks looks_;
  bool stopping_ = false;            // a signal was sent
  bool killing_ = false;             // that was SIGKILL
  bool failed_ = false;              // some worker
  grace strays_;                     // of a round that has ended well
  time_point last_exit_{};           // of a worker
  std::optional<effect> last_word_;  // the last event about a worker, delayed while strays live
  bool named_strays_ = false;
  bool over_ = false;

  machine_clock clock;  // real time, because processes do not stop when the loop does
  time_point now_{};    // of the current event
  effects* effects_ = nullptr;
};

}  // namespace ddprun::launcher::workers
