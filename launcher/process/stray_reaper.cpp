#include "launcher/process/stray_reaper.hpp"

#include "launcher/process/guardian_process.hpp"

#include <algorithm>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

// An execve that takes longer hangs on its disk.
constexpr std::chrono::seconds silence_limit{1};

}  // namespace

stray_reaper::stray_reaper(boost::asio::any_io_executor executor, spawner& spawn)
    : child_ended_(executor), spawner_(spawn), marks_(executor) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const pid_t pid : list_children()) {
    if (!spawner_.owns(pid) && !is_dead(pid)) found_here_.insert(pid);
  }
  strangers_come_ = ::getpid() == 1 || !found_here_.empty();
  error_code ignored;  // without SIGCHLD, zombies stay until we exit
  child_ended_.add(SIGCHLD, ignored);
  watch();
}

void stray_reaper::watch() {
  child_ended_.async_wait([this](error_code error, int) {
    if (error) return;
    reap();
    watch();
  });
}

bool stray_reaper::forget(pid_t pid) {
  if (::waitpid(pid, nullptr, WNOHANG) != pid) return false;
  for (auto* known : {&found_here_, &marked_, &strangers_})
    known->erase(pid);
  silent_.erase(pid);
  return true;
}

void stray_reaper::reap() {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // The spawner's child hides the others until its owner reaps it. The next SIGCHLD or
    // kill_strays() then calls this again.
    if (spawner_.owns(info.si_pid)) return;
    if (!forget(info.si_pid)) return;
  }
}

std::vector<pid_t> stray_reaper::kill_strays() {
  return look(SIGKILL);
}

std::vector<pid_t> stray_reaper::find_strays() {
  return look(0);
}

std::vector<pid_t> stray_reaper::orphans() {
  bool reaped = false;
  return look_at_orphans(0, reaped);
}

std::vector<pid_t> stray_reaper::look(int signal) {
  while (true) {
    // Members of the cgroup first: when they die, their children become ours.
    std::vector<pid_t> left = look_at_members(signal);
    bool reaped = false;
    for (const pid_t orphan : look_at_orphans(signal, reaped)) {
      if (std::find(left.begin(), left.end(), orphan) == left.end()) left.push_back(orphan);
    }
    // A process that was dead already may have left us a child after the list was made.
    if (!left.empty() || !reaped) return left;
  }
}

// Checks both: a session member may have a dead parent, and a descendant may be in another session.
bool stray_reaper::is_spared(pid_t pid) const {
  if (!lives_on_) return false;
  if (lives_on_(::getsid(pid))) return true;
  const pid_t self = ::getpid();
  for (pid_t one = pid; one > 1 && one != self;) {
    if (lives_on_(one)) return true;
    const std::optional<process_stat> found = stat_of(one);
    one = found ? found->parent : -1;
  }
  return false;
}

std::vector<pid_t> stray_reaper::look_at_members(int signal) const {
  if (!cgroup_) return {};
  std::vector<pid_t> left = processes_in_cgroup(cgroup_->path());
  std::erase_if(left, [&](pid_t pid) {
    return spawner_.owns(pid) || is_spared(pid) || process_name(pid) == guardian_name;
  });
  for (const pid_t pid : left)
    ::kill(pid, signal);
  return left;
}

std::vector<pid_t> stray_reaper::look_at_orphans(int signal, bool& reaped) {
  std::vector<pid_t> left;
  std::vector<pid_t> undecided;
  for (const pid_t pid : list_children()) {
    if (spawner_.owns(pid) || is_spared(pid)) continue;
    // A zombie that a debugger holds cannot be reaped, and must not keep us looking forever.
    if (is_dead(pid) && forget(pid)) {
      reaped = true;
      continue;
    }
    const origin from = origin_of(pid);
    if (from == origin::elsewhere) continue;
    left.push_back(pid);
    if (from == origin::unknown) {
      undecided.push_back(pid);
    } else {
      ::kill(pid, signal);
    }
  }
  ask_for_marks(std::move(undecided));
  return left;
}

stray_reaper::origin stray_reaper::origin_of(pid_t pid) const {
  if (found_here_.count(pid) != 0) return origin::elsewhere;
  if (process_name(pid) == guardian_name) return origin::elsewhere;
  if (!strangers_come_ || marked_.count(pid) != 0) return origin::worker;
  return strangers_.count(pid) != 0 ? origin::elsewhere : origin::unknown;
}

void stray_reaper::ask_for_marks(std::vector<pid_t> pids) {
  if (pids.empty() || marks_.under_way()) return;
  const auto look = [pids, entry = mark_] {
    marks found;
    for (const pid_t pid : pids) {
      const std::optional<bool> is_marked = shows_variable(pid, entry);
      if (!is_marked) found.silent.push_back(pid);
      if (is_marked.value_or(false)) found.ours.push_back(pid);
    }
    return found;
  };
  marks_.start(look, [this, pids](std::optional<marks> found) {
    if (!found) return;  // the next look asks again
    const auto now = std::chrono::steady_clock::now();
    const auto children = list_children();
    const auto contains = [](const std::vector<pid_t>& all, pid_t one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    for (const pid_t pid : pids) {
      if (!contains(children, pid)) continue;  // reaped meanwhile, so its PID may be reused
      if (contains(found->ours, pid)) {
        marked_.insert(pid);
        continue;
      }
      // A process in the middle of execve has no environment yet: the next look asks again.
      if (contains(found->silent, pid) &&
          now - silent_.try_emplace(pid, now).first->second < silence_limit)
        continue;
      strangers_.insert(pid);
    }
  });
}

}  // namespace ddprun::launcher
