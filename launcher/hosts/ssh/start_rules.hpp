// The start rules decide when to connect to which host, which failures are retried, and when the
// start has failed. They are a state machine without sockets and clocks.
//
//   stage        means
//   waiting      not tried yet, or to be tried again at its moment
//   connecting   an ssh is under way; at most connecting_max of them, because an sshd that
//                many connect to (a gateway) drops some
//   running      its agent runs
//   over         its agent has ended, or its connection
//   failed       it takes no part
//
// Only a connection that sshd has dropped is retried, after a pause that grows and differs by host.
// A refused key is never retried, because sshd blocks clients that fail often (PerSourcePenalties).
//
// While hosts come and go (`is_open`) the start has no end: each host's time begins with its first
// try, some wait until others are gone, and one that takes no part may be admitted again.
//
// Hosts are numbered from 0, in the order of the list.
#pragma once

#include "launcher/hosts/ssh/agent_end.hpp"
#include "rendezvous/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::ssh {

inline constexpr std::size_t connecting_max = 64;
inline constexpr duration first_pause = std::chrono::milliseconds(250);
inline constexpr duration pause_max = std::chrono::seconds(5);

enum class stage { waiting, connecting, running, over, failed };

// Whether the words of ssh say that sshd, or something on the way, has dropped the connection
// before the login.
bool is_dropped(std::string_view words);
// Whether they say that the user's or the host's key was refused.
bool is_refused(std::string_view words);

class start_rules {
 public:
  struct limits {
    std::size_t hosts = 0;
    std::size_t hosts_min = 0;  // the run needs at least so many
    duration start_timeout{};   // of each host, from the start
    std::uint64_t seed = 0;     // of the pauses
    bool is_open = false;
    std::size_t hosts_at_once = SIZE_MAX;  // connecting or running, while it is open
  };

  start_rules(limits values, time_point now);

  // Returns the hosts to connect to now, which are connecting from then on.
  std::vector<std::size_t> take_next(time_point now);
  // When to ask again even if nothing has happened.
  std::optional<time_point> next_deadline() const;
  // Returns the hosts that do not run and whose time is up; they have failed from then on.
  std::vector<std::size_t> take_late(time_point now);

  void agent_runs(std::size_t host);
  // The ssh to the host has ended while connecting, with these last words. True: a retry follows.
  bool connection_failed(std::size_t host, std::string_view words, time_point now);
  void agent_ended(std::size_t host) { hosts_[host].at = stage::over; }
  void give_up(std::size_t host) { hosts_[host].at = stage::failed; }

  stage stage_of(std::size_t host) const { return hosts_[host].at; }
  std::size_t count(stage of) const;

  // Adds a host that takes no part yet. Its number is the next one.
  void add();
  // Lets a host that takes no part be tried again, not before that moment.
  void admit(std::size_t host, time_point not_before);
  // No more hosts come: those that have not begun take no part.
  void close();
  bool is_open() const { return values_.is_open; }

  // The number of hosts that run or still may.
  std::size_t possible() const { return hosts_.size() - count(stage::over) - count(stage::failed); }
  bool has_too_few() const { return !is_open() && possible() < values_.hosts_min; }
  bool is_over() const { return !is_open() && possible() == 0; }

 private:
  struct entry {
    stage at = stage::waiting;
    time_point not_before{};
    time_point deadline{};  // of its start, once that has begun
    std::uint32_t drops = 0;
  };

  std::size_t room() const;

  limits values_;
  std::vector<entry> hosts_;
};

// What the head's exit code is derived from.
struct head_end {
  std::vector<agent_end> said;      // by agents that have ended by themselves, in order
  std::optional<int> failed_start;  // the code of an agent that could not begin, or our own
  std::optional<int> signal;        // a signal that the head got while agents were there
};

// Whether an agent has ended for another reason than that its node was drained.
bool is_decided(const head_end& end);

int exit_code_of(const head_end& end);

}  // namespace ddprun::launcher::ssh
