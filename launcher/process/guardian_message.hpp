// The messages that an agent and its children send to the guardian through the death pipe.
//
// Both ends are the same binary on one host, so the layout is the compiler's. Each message is one
// write of at most PIPE_BUF bytes, so messages of several writers never mix.
//
// Thread rule: plain values, no allocation (a child sends `add` between fork and exec).
#pragma once

#include <climits>

#include <cstdint>
#include <sys/types.h>

namespace ddprun::launcher {

enum class guardian_verb : std::uint32_t {
  add = 1,       // a process group to kill when the agent dies; may come twice
  remove = 2,    // that group is gone
  tell = 3,      // followed by `size` bytes: address '\0' and the bytes to send there
  farewell = 4,  // the agent exits in order: kill and tell nothing
  mark = 5,      // followed by `size` bytes: "NAME=VALUE" in the environment of every worker
  cgroup = 6,    // followed by `size` bytes: the path of the workers' cgroup
  beat = 7,      // followed by a guardian_limit_body
};

// Until when the workers may live, by CLOCK_MONOTONIC, which both ends share on one host.
struct guardian_limit_body {
  std::int64_t until_ns;  // 0: without limit
  std::int64_t grace_ns;  // how long to wait for a beat after the guardian itself stood still
};

// What the guardian writes to its standard output, each in one write.
enum class guardian_word_kind : std::int32_t {
  strikes = 1,    // it kills the workers now, because the agent stands still
  signalled = 2,  // it has received `signal`, SIGUSR1 or SIGUSR2
};
struct guardian_answer {
  guardian_word_kind kind;
  std::int32_t signal;
  std::int64_t at_ns;  // of CLOCK_MONOTONIC
};

// The terms of a `tell`, in its `group`; added up.
inline constexpr std::int32_t tell_until_strike = 1;    // a strike makes it void
inline constexpr std::int32_t tell_unless_refused = 2;  // stop trying if the connection is refused

struct guardian_message {
  guardian_verb word;
  std::int32_t group;  // add, remove; tell: the sum of tell_until_strike, ...
  std::uint32_t port;  // tell
  std::uint32_t size;  // tell, mark, cgroup, beat
};

inline guardian_message add_group_message(pid_t group) {
  return {guardian_verb::add, group, 0, 0};
}

inline constexpr std::uint32_t guardian_tell_bytes_max = PIPE_BUF - sizeof(guardian_message);

}  // namespace ddprun::launcher
