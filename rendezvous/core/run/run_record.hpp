// A run record is what a daemon must know of a run if all that knew it have died (DESIGN.md): which
// instance it is, which numbers its rounds may have, what was charged, whose workers may live, and
// whether it is over.
#pragma once

#include "rendezvous/base/shared_list.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/started_job.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::core {

struct run_end {
  int exit_code = 0;
  std::string text;  // for people: how it ended
  bool operator==(const run_end&) const = default;
};

// A failure beyond the budget: the instance ends like this once its round has stopped.
struct due_end {
  round_number round = 0;  // the round that it ends
  run_end how;
  bool operator==(const due_end&) const = default;
};

// An instance before that of the record: its nodes that were away are told how it ended.
struct past_end {
  instance_id instance = 0;
  run_end how;
  round_number round = 0;  // no round of it had a higher number
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;
  std::optional<started_job> job;
  bool operator==(const past_end&) const = default;
};

inline constexpr std::size_t past_ends_max = 8;  // in a record

struct run_record {
  std::string run_id;
  instance_id instance = 0;
  // Numbers up to this one may have been given to rounds; reserved ahead, so that no restart waits
  // for a disk.
  round_number rounds_reserved = 0;
  // Charged as soon as a failure is reported, so that it is persisted by the time the next round
  // starts.
  std::uint32_t restarts_used = 0;
  // How many of these no longer count against --max-restarts (--restart-window).
  std::uint32_t restarts_forgiven = 0;
  // The nodes of the newest round; once the instance is over, those that could not be reached. 0:
  // no worker was ever started, or none can live.
  std::uint32_t nodes = 0;
  // The lasting_name of each member of that round, by group rank; a name that is empty or missing
  // is not known.
  shared_list<std::string> members;
  duration gone_after{};  // this long after the daemon's death no worker of these nodes lives
  duration lost_after{};  // this long after the next daemon's start it is lost, if no node came
  std::optional<due_end> due;      // none: the budget is not exceeded
  std::optional<run_end> end;      // none: it is open
  std::optional<started_job> job;  // that opened it; none: the daemon did not ask
  shared_list<past_end> past;      // the newest first, at most past_ends_max
  bool operator==(const run_record&) const = default;
};

}  // namespace ddprun::core
