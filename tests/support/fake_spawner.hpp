// A spawner without processes: what the real one gets from the kernel are values here, which a test
// sets and checks. It enforces the rules of spawner.hpp: a process is reaped once and only after
// its end, and a group is not looked for while its leader is a zombie.
//
// A process does nothing by itself. A signal that ends it takes effect in the table at once, and is
// reported by `deliver`, like every event.
#pragma once

#include "launcher/process/spawner.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace ddprun::tests {

using namespace launcher;

struct fake_process {
  spawn_request request;
  spawn_handlers handlers;
  bool is_stuck = false;      // in the kernel: no signal ends it or its children
  bool ignores_term = false;  // and every other signal that can be ignored
  bool has_executed = false;
  bool has_ended = false;
  bool is_reaped = false;
  bool could_not_start = false;
  int children = 0;                 // others in its group; they hold its pipes...
  bool children_are_quiet = false;  // ... or do not
  int holders_elsewhere = 0;        // of its pipes, outside of the group
  exit_status status;
  std::vector<int> signals;  // sent to the group
  pipe_ends output, errors;  // the write ends, if there are pipes

  bool has_open_pipes() const {
    return !has_ended || (children > 0 && !children_are_quiet) || holders_elsewhere > 0;
  }
};

class fake_spawner final : public spawner {
 public:
  // What the test sets and does.
  std::optional<start_failure> refusal;  // for all spawns; none: they succeed
  std::optional<start_failure> failure;  // for all execs
  bool exec_hangs = false;               // of processes spawned from now on
  bool makes_pipes = false;              // otherwise the pipes exist only in the table
  bool has_handles = true;               // for adopted processes

  fake_process& operator[](pid_t pid) {
    REQUIRE(table_.count(pid) == 1);
    return table_.at(pid);
  }
  pid_t newest() const { return last_pid_; }
  std::size_t size() const { return table_.size(); }

  void execute(pid_t pid) {
    fake_process& one = (*this)[pid];
    if (std::exchange(one.has_executed, true)) return;
    told_.push_back([executed = one.handlers.executed] {
      if (executed) executed();
    });
  }
  // The process exits by itself, or by a signal that it did not ignore.
  void end(pid_t pid, exit_status status) {
    fake_process& one = (*this)[pid];
    if (one.has_ended) return;
    execute(pid);
    one.has_ended = true;
    one.status = status;
    told_.push_back([pid, status, ended = one.handlers.ended] { ended(pid, status); });
    close_pipes(one);
  }
  // The process is no longer stuck: a SIGKILL sent meanwhile takes effect.
  void free(pid_t pid) {
    fake_process& one = (*this)[pid];
    one.is_stuck = false;
    if (std::count(one.signals.begin(), one.signals.end(), SIGKILL) == 0) return;
    one.children = 0;
    exit_status killed;
    killed.signal = SIGKILL;
    end(pid, killed);
    close_pipes(one);
  }
  void end_child(pid_t pid) {
    fake_process& one = (*this)[pid];
    REQUIRE(one.children > 0);
    --one.children;
    close_pipes(one);
  }
  void let_go_of_pipes(pid_t pid) {
    fake_process& one = (*this)[pid];
    REQUIRE(one.holders_elsewhere > 0);
    --one.holders_elsewhere;
    close_pipes(one);
  }

  // Delivers one event. False if there is none.
  bool deliver() {
    if (told_.empty()) return false;
    const auto next = std::move(told_.front());
    told_.pop_front();
    next();
    return true;
  }

  // True if no spawned process is left.
  bool has_nothing_left() const {
    for (const auto& [pid, one] : table_) {
      if (!one.is_reaped || one.children > 0) return false;
    }
    return true;
  }

  // The interface of spawner.
  spawn_result spawn(const spawn_request& request, spawn_handlers handlers) override {
    if (refusal) return *refusal;
    const pid_t pid = ++last_pid_;
    fake_process& one = table_[pid];
    one.request = request;
    one.handlers = std::move(handlers);
    spawned_child child;
    child.pid = pid;
    if (makes_pipes) {
      for (pipe_ends* ends : {&one.output, &one.errors}) {
        auto made = make_pipe();
        REQUIRE(made.has_value());
        *ends = std::move(*made);
      }
      child.output = std::move(one.output.read);
      child.errors = std::move(one.errors.read);
    }
    if (failure) {
      // Like the real one, it reaps the process before it reports the failure.
      one.has_ended = one.is_reaped = one.could_not_start = true;
      close_pipes(one);
      told_.push_back([why = *failure, failed = one.handlers.failed] { failed(why); });
    } else if (!exec_hangs) {
      execute(pid);
    }
    return child;
  }

  bool adopt(pid_t pid, ended_handler ended) override {
    table_[pid].handlers.ended = has_handles ? std::move(ended) : [](pid_t, exit_status) {};
    return has_handles;
  }

  void signal_group(pid_t pid, int signal) override {
    if (!owns(pid)) return;
    fake_process& one = table_.at(pid);
    one.signals.push_back(signal);
    if (one.is_stuck || (signal != SIGKILL && one.ignores_term)) return;
    one.children = 0;
    exit_status status;
    status.signal = signal;
    end(pid, status);
    close_pipes(one);
  }

  void reap(pid_t pid) override {
    fake_process& one = (*this)[pid];
    REQUIRE(one.has_ended);  // the real one would block
    REQUIRE_FALSE(std::exchange(one.is_reaped, true));
  }

  bool reap_within(pid_t pid, duration) override {
    if ((*this)[pid].has_ended) reap(pid);
    return (*this)[pid].has_ended;
  }

  std::vector<pid_t> living_groups(const std::vector<pid_t>& groups) override {
    std::vector<pid_t> living;
    for (const pid_t pid : groups) {
      REQUIRE((*this)[pid].is_reaped);
      if ((*this)[pid].children > 0) living.push_back(pid);
    }
    return living;
  }

  bool owns(pid_t pid) const override {
    const auto found = table_.find(pid);
    return found != table_.end() && !found->second.is_reaped;
  }

 private:
  static void close_pipes(fake_process& one) {
    if (one.has_open_pipes()) return;
    one.output.write.reset();
    one.errors.write.reset();
  }

  pid_t last_pid_ = 1'000'000'000;  // no real process has such a pid, if one leaks out
  std::map<pid_t, fake_process> table_;
  std::deque<std::function<void()>> told_;
};

}  // namespace ddprun::tests
