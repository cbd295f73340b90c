// The agent's side of the guardian: the process that kills the workers if the agent dies or stands
// still for too long.
//
// start_guardian() forks it first thing in main, which takes a fraction of a millisecond; the class
// then talks to it. If the guardian is killed, it is started again through the spawner (a process
// with threads can fork safely only there), gets all information again, and one line reports it.
//
// Nothing here blocks except farewell(), for at most 400 ms.
//
// Thread rule: the main thread. Ownership: see each function. Errors are printed as lines: the run
// goes on without a guardian, with PDEATHSIG as the second line of defence.
#pragma once

#include "launcher/process/group_signals.hpp"
#include "launcher/process/guardian_message.hpp"
#include "launcher/process/spawner.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace ddprun::launcher {

// A guardian that was just forked. If that failed, there is no process, and `error` is set.
struct guardian_process {
  pid_t pid = -1;
  unique_fd death_pipe;  // write end
  unique_fd answers;     // read end
  int error = 0;
};

// Call it in main before any thread or io_context exists, after become_guardian_if_asked() (see
// guardian_process.hpp). It also makes the process ignore SIGPIPE.
guardian_process start_guardian();

// When a message that the guardian has to send becomes void.
struct tell_terms {
  bool until_strike = false;    // once it has killed the workers because the agent stood still
  bool unless_refused = false;  // if the connection is refused: no daemon will listen again
};

class guardian {
 public:
  using say_handler = std::function<void(const std::string& line)>;

  // `spawn` and `say` must outlive it. Without a process it starts one through the spawner.
  guardian(boost::asio::any_io_executor executor, spawner& spawn, guardian_process process,
           say_handler say);
  ~guardian();  // without farewell() the guardian acts as at the agent's death
  guardian(const guardian&) = delete;
  guardian& operator=(const guardian&) = delete;

  bool started() const;
  pid_t pid() const;

  // For spawn_request::announce_to; -1 without a guardian. It changes when the guardian is
  // restarted.
  int announce_fd() const;

  // Adds a worker's process group to kill at the agent's death, or removes one that is gone.
  void add(pid_t group);
  void remove(pid_t group);

  // "NAME=VALUE", which is in the environment of every worker and of no other process on this host.
  // At the agent's death each process that has inherited it is killed, too. Without a cgroup, this
  // is the only way to find a worker's child that has left its process group and session.
  void mark(const std::string& entry);

  // The folder of the workers' cgroup: all processes in it are killed, too, and it is removed.
  // Empty: there is none.
  void cgroup(const std::string& path);

  // The agent is alive, and its workers may live until then without another beat; none: without
  // limit. The guardian kills them `life_limit::margin` later. `grace` is how long it waits for a
  // beat after it has stood still itself. A guardian that does not read is replaced, and one line
  // says so.
  void beat(std::optional<time_point> until, duration grace);

  // True: it has killed the workers since the last call, because the agent stood still. This is
  // known before the agent sees any of them end.
  bool take_strike();

  // True if SIGUSR1 or SIGUSR2, which the agent received at `heard`, was sent to the guardian
  // itself, too, and so to every process of the job. Call it once for each signal,
  // guardian_answer_limit later.
  bool take_signal(int signal, time_point heard);

  // What to send, and where to, once the workers are dead: a numeric address and a complete line.
  // The newest replaces earlier ones; empty bytes: nothing. False: it is too long for one message.
  bool tell(const std::string& address, std::uint16_t port, const std::string& bytes,
            tell_terms terms = {});

  // The agent exits in order. Waits a moment for the guardian's end, so that no process is left;
  // `meanwhile` runs while the guardian ends.
  void farewell(const std::function<void()>& meanwhile = [] {});

 private:
  struct link;

  void hear_answers();
  void lost(exit_status status);
  void start_again();
  void send(std::string bytes);
  void flush();

  boost::asio::any_io_executor executor_;
  spawner& spawner_;
  say_handler say_;
  std::shared_ptr<link> link_;  // null: no guardian
  std::set<pid_t> groups_;
  std::string tell_message_;  // as last sent; empty: none
  std::string mark_message_;  // likewise
  std::string cgroup_message_;
  std::string beat_message_;
  bool has_struck_ = false;
  group_signals signals_;
  int starts_ = 0;
};

}  // namespace ddprun::launcher
