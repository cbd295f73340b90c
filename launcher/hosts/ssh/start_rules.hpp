// The start rules decide which host is connected to when, which failure is tried again, and when
// the start has failed: a machine without sockets and clocks.
//
//   stage        means
//   waiting      not tried yet, or to be tried again at its moment
//   connecting   an ssh is under way; at most connecting_max of them, for an sshd that many come to
//                (a gateway) drops some
//   running      its agent runs
//   over         its agent has ended, or its connection
//   failed       it takes no part
//
// Only a connection that sshd has dropped is tried again, with a pause that grows and is different
// for each host. A refused key never is: sshd blocks who fails often (PerSourcePenalties).
//
// While hosts come and go (`is_open`) a start has no end: each host's time begins with its first
// try, some wait until others are gone, and one that takes no part may be admitted again.
//
// Hosts are numbers from 0, in the order of the list.
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
// What agents end with that leave in order on SIGTERM, where the person has said nothing.
inline constexpr int drained_exit_code = 143;

enum class stage { waiting, connecting, running, over, failed };

// True: what ssh said is that sshd, or somebody on the way, has dropped it before it was let in.
bool is_dropped(std::string_view words);
// True: it said that one of the two keys is not what the other side knows.
bool is_refused(std::string_view words);

class start_rules {
 public:
  struct limits {
    std::size_t hosts = 0;
    std::size_t hosts_min = 0;  // with fewer the run cannot be
    duration start_timeout{};   // of each host, from the beginning on
    std::uint64_t seed = 0;     // of the pauses
    bool is_open = false;
    std::size_t hosts_at_once = SIZE_MAX;  // that connect or run, while it is open
  };

  start_rules(limits values, time_point now);

  // Those to connect to now; they are connecting then.
  std::vector<std::size_t> take_next(time_point now);
  // When to ask again though nothing has happened.
  std::optional<time_point> next_deadline() const;
  // Those whose time is up, and which do not run; they have failed then.
  std::vector<std::size_t> take_late(time_point now);

  void agent_runs(std::size_t host);
  // Its ssh has ended while it was connecting; `words` are ssh's. True: it will be tried again.
  bool connection_failed(std::size_t host, std::string_view words, time_point now);
  void agent_ended(std::size_t host) { hosts_[host].at = stage::over; }
  void give_up(std::size_t host) { hosts_[host].at = stage::failed; }

  stage stage_of(std::size_t host) const { return hosts_[host].at; }
  std::size_t count(stage of) const;

  // One more host, which takes no part yet; its number is the next one.
  void add();
  // One that takes no part is tried again, not before that moment.
  void admit(std::size_t host, time_point not_before);
  // No host comes any more: those that have not begun take no part.
  void close();
  bool is_open() const { return values_.is_open; }

  // Those that run, or still may.
  std::size_t possible() const { return hosts_.size() - count(stage::over) - count(stage::failed); }
  bool has_too_few() const { return !is_open() && possible() < values_.hosts_min; }
  bool is_over() const { return !is_open() && possible() == 0; }

 private:
  struct entry {
    stage at = stage::waiting;
    time_point not_before{};
    time_point deadline{};  // of its start, once it has begun
    std::uint32_t drops = 0;
  };

  std::size_t room() const;

  limits values_;
  std::vector<entry> hosts_;
};

// What the head exits with, of what its agents have said.
struct head_end {
  std::vector<agent_end> said;      // of agents that have ended by themselves, in order
  std::optional<int> failed_start;  // that of an agent that could not begin, or our own
  std::optional<int> signal;        // that came to the head while agents were there
};

// An agent has ended, and not because its node was drained.
bool is_decided(const head_end& end);

int exit_code_of(const head_end& end);

}  // namespace ddprun::launcher::ssh
