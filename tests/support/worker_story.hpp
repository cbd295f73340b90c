// A worker story plays everything around workers::worker_group_machine in simulated time: the
// processes (a fake_spawner), the search for programs, the reader of our output, and strays. It
// records what is reported, and when.
//
// In every story it checks the invariants: one final report for each worker, no report after the
// last, no reaping of a live process, and no missed deadline.
#pragma once

#include "launcher/process/worker_group_machine.hpp"
#include "tests/support/fake_spawner.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

namespace ddprun::tests {

using namespace launcher;

class worker_story {
 public:
  static constexpr workers::time_point origin{std::chrono::hours(1000)};

  struct stray {
    workers::place from = 0;
    bool holds_pipes = false;
    bool is_stuck = false;
    pid_t holder = -1;  // whose pipes; set by the story
  };

  static workers::limits limits() {
    workers::limits values;
    values.drain = std::chrono::seconds(2);
    values.strays = std::chrono::seconds(5);
    values.shortage = std::chrono::seconds(5);
    return values;
  }
  static start_failure shortage() {
    return {start_stage::descriptors, EMFILE, "train", {}, false, false};
  }
  static start_failure no_such_program() {
    return {start_stage::exec, ENOENT, "train", {}, false, false};
  }

  explicit worker_story(std::size_t count, workers::limits values = limits())
      : machine_(values, count), seats_(count) {}

  // Events.
  void tell(const workers::event& what) {
    step(what);
    settle();
  }
  void start() {
    was_started_ = true;
    tell(workers::start_asked{});
  }
  void start_if_not_yet() {
    if (!was_started_) start();
  }
  void stop(int signal) { tell(workers::stop_asked{signal}); }
  void run() {
    start();
    REQUIRE(said("all started"));
  }
  // Advances the clock while the loop stands still.
  void freeze(workers::duration by) { move_clock(now_ + by); }
  // Advances the clock, from deadline to deadline.
  void pass(workers::duration by) {
    const workers::time_point until = now_ + by;
    while (true) {
      const auto next = machine_.next_deadline();
      if (!next || *next > until) break;
      move_clock(*next);
      tell(workers::time_passed{});
    }
    move_clock(until);
    settle();
  }
  void exits(workers::place worker, int code) {
    exit_status status;
    status.code = code;
    system.end(seats_[worker].pid, status);
    settle();
  }
  // The worker survives for another round; its process must then ignore signals.
  void leaves(workers::place worker) {
    const bool is_heard = !seats_[worker].is_told;
    seats_[worker].lives_on = is_heard;
    some_live_on_ = some_live_on_ || is_heard;
    tell(workers::left{worker});
  }
  void execs(workers::place worker) {
    system.execute(seats_[worker].pid);
    settle();
  }
  void search_ends() {
    if (!sought_) return;
    tell(workers::program_found{*std::exchange(sought_, std::nullopt)});
  }
  void search_fails(int error) {
    const auto worker = *std::exchange(sought_, std::nullopt);
    tell(workers::start_failed{worker, {start_stage::find, error, "train", {}, false, false}});
  }
  void add_stray(stray one) {
    one.holder = pid_of(one.from);
    if (one.holds_pipes) ++process(one.from).holders_elsewhere;
    strays.push_back(one);
  }
  void end_stray(std::size_t index) {
    const stray one = strays[index];
    strays.erase(strays.begin() + static_cast<std::ptrdiff_t>(index));
    if (one.holds_pipes) system.let_go_of_pipes(one.holder);
    settle();
  }
  // Our own reader is blocked, or continues.
  void reader_stops() {
    if (!blocked_since_) blocked_since_ = now_;
  }
  void reader_goes_on() {
    if (blocked_since_) blocked_ += now_ - *blocked_since_;
    blocked_since_.reset();
    settle();
  }
  // Delivers pending events, for instance after a change of `system` or `strays`.
  void settle() {
    while (!is_deaf && hear_one()) {
    }
  }
  bool hear_one() {
    if (heard_.empty()) return system.deliver() || close_pipes();
    const workers::event next = std::move(heard_.front());
    heard_.pop_front();
    step(next);
    return true;
  }

  // Observations.
  bool said(const std::string& word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
  // When the word was first reported, since the start of the story.
  workers::duration when(const std::string& word) const {
    INFO("never said: " << word);
    const auto found = std::find(words.begin(), words.end(), word);
    REQUIRE(found != words.end());
    return when_[static_cast<std::size_t>(found - words.begin())];
  }
  workers::duration passed() const { return now_ - origin; }
  bool is_spawned(workers::place worker) const { return seats_[worker].pid > 0; }
  pid_t pid_of(workers::place worker) const { return seats_[worker].pid; }
  fake_process& process(workers::place worker) {
    REQUIRE(is_spawned(worker));
    return system[seats_[worker].pid];
  }
  bool is_sought() const { return sought_.has_value(); }  // for some worker's program
  bool is_attached(workers::place worker) const { return seats_[worker].attached; }
  bool is_told(workers::place worker) const { return seats_[worker].is_told; }
  workers::worker_group_machine& machine() { return machine_; }

  fake_spawner system;
  std::vector<stray> strays;
  bool search_hangs = false;
  bool is_deaf = false;  // delivers only what a test tells itself
  std::vector<std::string> words;
  int spawns = 0, looks = 0, stray_looks = 0, reader_looks = 0, children_looks = 0;
  bool are_kept = false;  // left-behind processes are kept
  std::vector<workers::place> released, forgotten;

 private:
  struct seat {
    pid_t pid = -1;
    bool attached = false;  // its pipes are attached
    bool hurried = false;
    bool is_told = false;
    bool lives_on = false;
    workers::duration blocked_before{};  // when it ended
  };

  void move_clock(workers::time_point to) { now_ = std::max(now_, to); }
  workers::duration blocked() const {
    return blocked_ + (blocked_since_ ? now_ - *blocked_since_ : workers::duration::zero());
  }

  void step(const workers::event& what) {
    if (const auto* const ended = std::get_if<workers::exited>(&what)) {
      seats_[ended->worker].blocked_before = blocked();
    }
    workers::effects effects;
    machine_.step(what, now_, effects);
    for (const workers::effect& effect : effects) {
      REQUIRE_FALSE(over_);
      std::visit([this](const auto& one) { apply(one); }, effect);
    }
    REQUIRE(machine_.is_over() == over_);
    const auto next = machine_.next_deadline();
    REQUIRE((!next || *next > now_));
  }

  bool close_pipes() {
    for (workers::place worker = 0; worker < seats_.size(); ++worker) {
      seat& one = seats_[worker];
      if (!one.attached || system[one.pid].has_open_pipes()) continue;
      if (blocked_since_ && !one.hurried) continue;
      one.attached = false;
      heard_.push_back(workers::pipe_ended{worker, workers::output_pipe::output});
      heard_.push_back(workers::pipe_ended{worker, workers::output_pipe::errors});
      return true;
    }
    return false;
  }

  void say(std::string word) {
    words.push_back(std::move(word));
    when_.push_back(passed());
  }
  void say_last(workers::place worker, const std::string& word) {
    REQUIRE_FALSE(std::exchange(seats_[worker].is_told, true));
    say(word);
  }

  // Effects.
  void apply(const workers::find_program& effect) {
    REQUIRE_FALSE(sought_);
    sought_ = effect.worker;
    if (search_hangs) return;
    heard_.push_back(workers::program_found{*std::exchange(sought_, std::nullopt)});
  }
  void apply(const workers::forget_search&) { sought_.reset(); }
  void apply(const workers::spawn& effect) {
    ++spawns;
    const auto worker = effect.worker;
    spawn_request request;
    request.argv = {"train"};
    spawn_handlers handlers;
    handlers.executed = [this, worker] { heard_.push_back(workers::executed{worker}); };
    handlers.failed = [this, worker](const start_failure& why) {
      heard_.push_back(workers::start_failed{worker, why});
    };
    handlers.ended = [this, worker](pid_t, exit_status status) {
      heard_.push_back(workers::exited{worker, status.success()});
    };
    const auto child = system.spawn(request, std::move(handlers));
    seats_[worker].pid = child ? child->pid : -1;
    seats_[worker].attached = child.has_value();
    if (!child) heard_.push_back(workers::start_failed{worker, child.error()});
  }
  void apply(const workers::signal_group& effect) {
    const pid_t pid = seats_[effect.worker].pid;
    // Otherwise its start has failed, which the machine has not heard yet.
    if (pid > 0 && !system[pid].could_not_start) REQUIRE(system.owns(pid));
    system.signal_group(pid, effect.signal);
  }
  void apply(const workers::hurry_pipes& effect) { seats_[effect.worker].hurried = true; }
  void apply(const workers::release_pipes& effect) {
    seats_[effect.worker].attached = false;
    released.push_back(effect.worker);
  }
  void apply(const workers::ask_reader& effect) {
    ++reader_looks;
    const seat& one = seats_[effect.worker];
    heard_.push_back(workers::reader_seen{effect.worker, blocked_since_ && !one.hurried,
                                          blocked() - one.blocked_before});
  }
  void apply(const workers::reap& effect) { system.reap(seats_[effect.worker].pid); }
  void apply(const workers::look_at_groups& effect) {
    ++looks;
    workers::groups_seen seen;
    for (const auto worker : effect.workers) {
      if (system.living_groups({seats_[worker].pid}).empty()) seen.empty.push_back(worker);
    }
    heard_.push_back(std::move(seen));
  }
  void apply(const workers::look_at_children& effect) {
    ++children_looks;
    const auto children = static_cast<std::size_t>(process(effect.worker).children);
    REQUIRE_FALSE(process(effect.worker).is_reaped);
    heard_.push_back(workers::children_seen{effect.worker, children, strays.size()});
  }
  void apply(const workers::count_strays&) {
    heard_.push_back(workers::strays_counted{strays.size()});
  }
  void apply(const workers::kill_strays&) {
    ++stray_looks;
    heard_.push_back(workers::strays_seen{strays.size()});
    for (const stray& one : strays) {
      if (one.holds_pipes && !one.is_stuck) system.let_go_of_pipes(one.holder);
    }
    std::erase_if(strays, [](const stray& one) { return !one.is_stuck; });
  }
  void apply(const workers::forget_group& effect) { forgotten.push_back(effect.worker); }

  // Reports.
  void apply(const workers::tell_all_started&) {
    REQUIRE_FALSE(said("all started"));
    say("all started");
  }
  void apply(const workers::tell_short_of&) { say("short"); }
  void apply(const workers::tell_left_behind& effect) {
    const char* const what = effect.what == workers::leftover_state::spared    ? "spares"
                             : effect.what == workers::leftover_state::ended   ? "ends"
                             : effect.what == workers::leftover_state::stopped ? "stops"
                                                                               : "keeps";
    const std::string whose = effect.worker ? " of " + std::to_string(*effect.worker) : " strays";
    const std::string word = what + whose;
    REQUIRE_FALSE(said(word));
    are_kept = are_kept || effect.what == workers::leftover_state::kept;
    say(word);
  }
  void apply(const workers::tell_strays_stay&) {
    REQUIRE_FALSE(said("strays stay"));
    say("strays stay");
  }
  void apply(const workers::tell_start_failed& effect) {
    say_last(effect.worker, "failed " + std::to_string(effect.worker));
  }
  void apply(const workers::tell_not_started& effect) {
    say_last(effect.worker, "not started " + std::to_string(effect.worker));
  }
  void apply(const workers::tell_ended& effect) {
    const fake_process& ended = process(effect.worker);
    if (seats_[effect.worker].lives_on) {
      REQUIRE_FALSE(ended.is_reaped);
      REQUIRE(std::count(forgotten.begin(), forgotten.end(), effect.worker) == 0);
      return say_last(effect.worker, "left " + std::to_string(effect.worker));
    }
    REQUIRE(ended.is_reaped);
    REQUIRE((ended.children == 0 || are_kept));
    REQUIRE(std::count(forgotten.begin(), forgotten.end(), effect.worker) > 0);
    say_last(effect.worker,
             "ended " + std::to_string(effect.worker) + ": " + ended.status.describe());
  }
  void apply(const workers::tell_all_ended&) {
    for (const seat& one : seats_) {
      REQUIRE(one.is_told);
      REQUIRE_FALSE(one.attached);
    }
    REQUIRE((system.has_nothing_left() || are_kept || some_live_on_));
    say("all ended");
    over_ = true;
  }

  workers::worker_group_machine machine_;
  std::vector<seat> seats_;
  workers::time_point now_ = origin;
  std::deque<workers::event> heard_;
  std::vector<workers::duration> when_;
  std::optional<workers::place> sought_;
  std::optional<workers::time_point> blocked_since_;
  workers::duration blocked_{};
  bool was_started_ = false;
  bool some_live_on_ = false;
  bool over_ = false;
};

}  // namespace ddprun::tests
