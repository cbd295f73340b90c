// What identifies a job by its start: the program and arguments of the node that opened it, when
// and where.
//
// The digest covers that node's command line only, because nodes of one job may differ in
// arguments. Before a daemon goes on with what another one has left (agents that dial on, a record
// of an earlier daemon) it checks whether both are one job, because nodes without --rdzv-id all
// have one run id.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// The run id of nodes without --rdzv-id, as in torchrun.
inline constexpr std::string_view default_run_id = "none";

struct started_job {
  // Of program and arguments, in hexadecimal. Empty: a person has given the run its id, which
  // identifies it.
  std::string digest;
  std::string program;  // without folder and arguments, for messages
  std::string started;  // by the clock of that node, for messages: "10:31"
  std::string node;     // its label, for messages
  bool operator==(const started_job&) const = default;
};

// A run and the job that opened it.
struct opened_run {
  std::string run_id;
  started_job job;
};

// Whether both are one job. A peer that does not say what was started, or whose run has an id of
// its own, is believed.
bool is_same_job(const std::optional<started_job>& one, const std::optional<started_job>& other);

// "another job (train_b.py, started 10:31 on node-a)"; what is not known is left out.
std::string as_another(const std::optional<started_job>& job);

// "if train_b.py is a different job from the one here (train_a.py, started 09:00 on node-0)", for
// one that is refused; "if this is another job" if nothing tells the two apart.
std::string where_another(const std::optional<started_job>& newcomer,
                          const std::optional<started_job>& here);

}  // namespace ddprun
