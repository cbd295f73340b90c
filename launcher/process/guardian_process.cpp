#include "launcher/process/guardian_process.hpp"

#include "launcher/process/cgroup.hpp"
#include "launcher/process/guardian_message.hpp"
#include "launcher/process/guardian_sender.hpp"
#include "launcher/process/life_limit.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <poll.h>
#include <set>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace ddprun::launcher {
namespace {

using clock = std::chrono::steady_clock;

// What the agent has told us so far.
struct charge {
  std::vector<pid_t> groups;
  std::string address;
  std::uint16_t port = 0;
  std::string bytes;
  bool holds_until_strike = false;  // the message is void after a strike
  bool ends_when_refused = false;   // trying ends if the connection is refused
  std::string mark;
  std::string cgroup;
  life_limit limit;
  bool farewell = false;
};

void take_tell(const guardian_message& message, const std::string& body, charge& known) {
  const auto end = body.find('\0');
  if (end == std::string::npos) return;
  known.address = body.substr(0, end);
  known.port = static_cast<std::uint16_t>(message.port);
  known.bytes = body.substr(end + 1);
  known.holds_until_strike = (message.group & tell_until_strike) != 0;
  known.ends_when_refused = (message.group & tell_unless_refused) != 0;
}

void take_beat(const std::string& body, charge& known) {
  guardian_limit_body told;
  if (body.size() != sizeof(told)) return;
  std::memcpy(&told, body.data(), sizeof(told));
  if (told.until_ns == 0) return known.limit.lift();
  known.limit.set(time_point(std::chrono::nanoseconds(told.until_ns)),
                  std::chrono::nanoseconds(told.grace_ns));
}

void take_message(const guardian_message& message, const std::string& body, charge& known) {
  auto& groups = known.groups;
  const auto found = std::find(groups.begin(), groups.end(), message.group);
  switch (message.word) {
    case guardian_verb::add:
      // kill(-0) and kill(-1) would hit our own group and every process.
      if (message.group > 1 && found == groups.end()) groups.push_back(message.group);
      break;
    case guardian_verb::remove:
      if (found != groups.end()) groups.erase(found);
      break;
    case guardian_verb::tell:
      take_tell(message, body, known);
      break;
    case guardian_verb::farewell:
      known.farewell = true;
      break;
    case guardian_verb::mark:
      known.mark = body;
      break;
    case guardian_verb::cgroup:
      known.cgroup = body;
      break;
    case guardian_verb::beat:
      take_beat(body, known);
      break;
  }
}

// Sends SIGKILL until no process of the groups runs. It sleeps in between, because no handle
// reports the end of a whole foreign group.
bool kill_groups(const std::vector<pid_t>& groups, clock::time_point deadline) {
  for (const pid_t group : groups)
    ::kill(-group, SIGKILL);
  long pause_ns = 200'000;
  for (auto left = running_groups(groups); !left.empty(); left = running_groups(left)) {
    if (clock::now() >= deadline) return false;
    const timespec pause{0, pause_ns};
    ::nanosleep(&pause, nullptr);
    pause_ns = std::min(pause_ns * 2, 20'000'000L);
    for (const pid_t group : left)
      ::kill(-group, SIGKILL);
  }
  return true;
}

// The same for processes that have left their worker's group. Each look lists them anew, because
// they may fork meanwhile. The guardian of a nested ddprun is spared: it ends by itself, after its
// own workers.
bool kill_all(const std::function<std::vector<pid_t>()>& find, clock::time_point deadline,
              std::set<pid_t>& killed) {
  while (true) {
    std::vector<pid_t> left = find();
    std::erase_if(left, [](pid_t pid) { return process_name(pid) == guardian_name; });
    if (left.empty()) return true;
    if (clock::now() >= deadline) return false;
    for (const pid_t pid : left)
      ::kill(pid, SIGKILL);
    killed.insert(left.begin(), left.end());
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

// A process that has left both the group and the cgroup is found by its environment. That search
// comes last, because it may block.
bool kill_escaped(const charge& known, clock::time_point deadline, std::set<pid_t>& killed) {
  bool all_dead = true;
  if (!known.cgroup.empty()) {
    all_dead &= kill_all([&] { return processes_in_cgroup(known.cgroup); }, deadline, killed);
  }
  if (!known.mark.empty()) {
    all_dead &= kill_all([&] { return processes_with(known.mark); }, deadline, killed);
  }
  return all_dead;
}

// The daemon closes the connection once it has read the message. If it is just restarting, or a
// link is down for a moment, trying again saves the other nodes the wait for an isolation limit.
void tell_daemon(const charge& known) {
  const auto give_up = clock::now() + guardian_word_limit;
  std::optional<clock::time_point> refused_since;
  long pause_ns = 100'000'000;
  while (clock::now() < give_up) {
    const auto deadline = std::min(clock::now() + guardian_word_try, give_up);
    const send_outcome outcome = send_bytes(known.address, known.port, known.bytes, deadline);
    if (outcome == send_outcome::taken) return;
    if (outcome != send_outcome::refused) {
      refused_since.reset();
    } else if (!refused_since) {
      refused_since = clock::now();
    } else if (known.ends_when_refused && clock::now() - *refused_since >= guardian_refused_limit) {
      return;
    }
    const timespec pause{0, pause_ns};
    ::nanosleep(&pause, nullptr);
    pause_ns = std::min(pause_ns * 2, 900'000'000L);
  }
}

void report(const char* why, const charge& known, std::size_t escaped, bool all_dead) {
  std::string line = std::string("ddprun guardian: ") + why + "; ";
  line += all_dead ? "killed " : "could not kill in time all of ";
  line += std::to_string(known.groups.size()) +
          (known.groups.size() == 1 ? " worker process group" : " worker process groups");
  if (escaped != 0) {
    line += " and " + std::to_string(escaped) +
            (escaped == 1 ? " process that had left them" : " processes that had left them");
  }
  line += '\n';
  // A reader of standard error that stands still must not delay the next step.
  pollfd errors{2, POLLOUT, 0};
  if (::poll(&errors, 1, 0) != 1) return;
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
}

// True: no process of the workers is alive.
bool kill_workers(const char* why, const charge& known) {
  const auto deadline = clock::now() + guardian_limit;
  bool all_dead = kill_groups(known.groups, deadline);
  std::set<pid_t> escaped;
  all_dead &= kill_escaped(known, deadline, escaped);
  if (!known.groups.empty() || !escaped.empty()) report(why, known, escaped.size(), all_dead);
  return all_dead;
}

// Async-signal-safe. If nobody reads and the pipe is full, the report is lost.
void answer(guardian_word_kind kind, int signal) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const guardian_answer word{kind, signal, now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec};
  [[maybe_unused]] const auto written = ::write(1, &word, sizeof(word));
}

void hear_signal(int signal) {
  const int error = errno;
  answer(guardian_word_kind::signalled, signal);
  errno = error;
}

// The agent is alive, but its loop does not run. It finds this report before the end of any of its
// workers. From now on a round may begin without it, so a message about an older one is void.
void strike(charge& known) {
  // Without workers there is nothing to kill, and nothing to report.
  if (known.groups.empty()) return;
  if (known.holds_until_strike) known.bytes.clear();
  answer(guardian_word_kind::strikes, 0);
  kill_workers("the agent was suspended for longer than isolation_limit", known);
}

void take_bytes(std::string& buffer, charge& known) {
  guardian_message message;
  while (buffer.size() >= sizeof(message)) {
    std::memcpy(&message, buffer.data(), sizeof(message));
    if (buffer.size() < sizeof(message) + message.size) return;
    take_message(message, buffer.substr(sizeof(message), message.size), known);
    buffer.erase(0, sizeof(message) + message.size);
  }
}

// Returns at the end of the pipe, when the agent has exited or died. A limit is judged only when
// the pipe is empty: a message counts even if this process reads it late.
charge watch(int death_pipe) {
  charge known;
  std::string buffer;
  char chunk[PIPE_BUF];
  while (!known.farewell) {
    pollfd entry{death_pipe, POLLIN, 0};
    const int ready = ::poll(&entry, 1, known.limit.wait_ms(clock::now()));
    if (ready == 0 && known.limit.is_over(clock::now())) strike(known);
    if (ready <= 0) continue;
    const auto count = ::read(death_pipe, chunk, sizeof(chunk));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    buffer.append(chunk, static_cast<std::size_t>(count));
    take_bytes(buffer, known);
  }
  return known;
}

// A fork has the command line of ddprun, by which `pkill -f` would find it.
void forget_command_line() {
  std::string own;
  char chunk[4096];
  const unique_fd file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  for (ssize_t count = 0; (count = ::read(file.get(), chunk, sizeof(chunk))) > 0;)
    own.append(chunk, static_cast<std::size_t>(count));
  const std::size_t name_bytes = std::strlen(guardian_name);
  // The arguments are contiguous, beginning with the program's name.
  char* const first = ::program_invocation_name;
  if (own.size() <= name_bytes || std::memcmp(first, own.data(), own.size()) != 0) return;
  std::memset(first, 0, own.size());
  std::memcpy(first, guardian_name, name_bytes);
}

// Closes everything of the agent except its two pipes (moved to 0 and 1) and standard error: an
// open pipe of the agent's output would keep its reader waiting.
void leave_the_agent(int death_pipe, int answers) {
  ::setsid();
  ::prctl(PR_SET_NAME, guardian_name);
  forget_command_line();
  ::prctl(PR_SET_PDEATHSIG, 0);
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    ::signal(signal, SIG_IGN);
  if (death_pipe != 0) ::dup2(death_pipe, 0);
  if (answers != 1) ::dup2(answers, 1);
  set_nonblocking(1);
  for (const int signal : {SIGUSR1, SIGUSR2})
    ::signal(signal, hear_signal);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  [[maybe_unused]] const int moved = ::chdir("/");
}

}  // namespace

void run_guardian(int death_pipe, int answers) {
  leave_the_agent(death_pipe, answers);
  // No page of the program may have to be read from a file server that hangs. If the user may not
  // lock so much (RLIMIT_MEMLOCK), it runs unlocked.
  ::mlockall(MCL_CURRENT);
  const charge known = watch(0);
  if (known.farewell) ::_exit(0);
  // The agent cannot get reports any more, and they must not interrupt what follows.
  for (const int signal : {SIGUSR1, SIGUSR2})
    ::signal(signal, SIG_IGN);
  const bool all_dead = kill_workers("the agent died", known);
  if (!known.cgroup.empty()) remove_cgroup(known.cgroup);
  if (all_dead && !known.bytes.empty()) tell_daemon(known);
  ::_exit(0);
}

void become_guardian_if_asked(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], guardian_argument) == 0) run_guardian(0, 1);
}

}  // namespace ddprun::launcher
