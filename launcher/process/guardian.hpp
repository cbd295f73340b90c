// The agent's side of the guardian: the process that kills the workers when the agent dies, or
// stands still for too long.
//
// start_guardian() forks it first thing in main, which costs a fraction of a millisecond; the class
// then talks to it. When it is killed itself it is started again through the spawner (a process
// with threads cannot fork safely but there), told everything anew, and one line says so.
//
// Nothing here blocks but farewell(), and that for 400 ms at most.
//
// Thread rule: the main thread. Ownership: see each function. Errors are lines for a person: work
// goes on without a guardian, PDEATHSIG is the second line.
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

// A guardian that was just forked. No process, and `error` set, when that failed.
struct guardian_process {
  pid_t pid = -1;
  unique_fd death_pipe;  // write end
  unique_fd answers;     // read end
  int error = 0;
};

// To be called in main before any thread or io_context exists, after become_guardian_if_asked()
// (see guardian_process.hpp). Also makes the process ignore SIGPIPE.
guardian_process start_guardian();

// How long what the guardian is to tell holds.
struct tell_terms {
  bool until_strike = false;    // void once it has killed the workers as the agent stood still
  bool unless_refused = false;  // where nobody listens, nobody will listen again
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

  // For spawn_request::announce_to; -1 without a guardian. Changes when it is started again.
  int announce_fd() const;

  // A worker's process group to kill at the agent's death, and one that is gone.
  void add(pid_t group);
  void remove(pid_t group);

  // "NAME=VALUE", which every worker has in its environment and nobody else on this host. At the
  // agent's death whoever has inherited it is killed too: a worker's child that has left its
  // process group, and its session, is found by nothing else where there is no cgroup.
  void mark(const std::string& entry);

  // The folder of the workers' cgroup: all that is in it is killed, too, and it is taken away.
  // Empty: there is none.
  void cgroup(const std::string& path);

  // The agent lives: its workers may do so until then if it says nothing more; none: without limit.
  // The guardian kills them `life_limit::margin` after that. `grace`: so long it waits for a beat
  // after it has stood still itself. One that does not read is replaced, and one line says so.
  void beat(std::optional<time_point> until, duration grace);

  // True: it has killed the workers since this was asked last, as the agent stood still. Known
  // before the end of any of them.
  bool take_strike();

  // Whether SIGUSR1 or SIGUSR2, which the agent heard at `heard`, was sent to the guardian itself,
  // too: whoever signals it signals every process of the job. To be asked guardian_answer_limit
  // after that, once for each.
  bool take_signal(int signal, time_point heard);

  // What to send to whom once the workers are dead: numeric address, whole line. The newest counts;
  // empty bytes: nobody. Refused (false) when too long for one message.
  bool tell(const std::string& address, std::uint16_t port, const std::string& bytes,
            tell_terms terms = {});

  // The agent leaves in order. Waits a moment for the guardian's end, so that no process is left;
  // the guardian ends while the caller does what else is left, in `meanwhile`.
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
  std::string mark_message_;  // the same
  std::string cgroup_message_;
  std::string beat_message_;
  bool has_struck_ = false;
  group_signals signals_;
  int starts_ = 0;
};

}  // namespace ddprun::launcher
