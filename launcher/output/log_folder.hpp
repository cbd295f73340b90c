// The log_folder of an agent is where its workers' log and error files are, as torchrun lays them
// out: DIR/RUN_NODE_RANDOM/attempt_RESTARTS/LOCAL_RANK/{stdout.log,stderr.log,error.json}, and
// filtered_stdout.log and filtered_stderr.log beside the ranks.
//
// A round that is no restart (a node has joined) begins with as many restarts as the one before,
// and torchrun's would erase the logs of that: here its folder is attempt_RESTARTS_round_ROUND.
//
// A run that asks for no files has no folder. What torch's @record writes is then
// $TMPDIR/ddprun_SESSION_round_ROUND_error_LOCAL_RANK.json.
//
// `make` touches the disk, the rest is pure.
#pragma once

#include "launcher/cli/output_options.hpp"
#include "launcher/log/log_route.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/log/writer.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher {

class log_folder {
 public:
  log_folder() = default;  // there is none

  // Makes what was asked for, with the folders above it. `mark` is this agent's alone.
  // Errors: what is wrong, and what to do.
  static cli::parsed<log_folder> make(const output_options& options, const std::string& run_id,
                                      const std::string& node, const std::string& mark,
                                      const environment_map& environment);

  // Empty: there is none.
  const std::string& path() const { return path_; }

  // Called once for each, before the rest is asked for. `restarts` as the workers are told.
  void begin_round(round_number round, std::uint32_t restarts);
  const std::string& attempt() const { return attempt_; }
  // To be made before the workers start. None where no folder of theirs is needed.
  std::vector<std::string> worker_folders(std::uint32_t worker_count) const;
  // By local rank; none where nothing can be written.
  std::vector<std::string> error_files(std::uint32_t worker_count) const;
  log_route route(const output_options& options, std::uint32_t local_rank,
                  log::output_stream stream, const std::string& prefix) const;

 private:
  std::string path_;
  std::string errors_;  // without a folder: what the names of error files begin with
  std::string attempt_;
  round_number round_ = 0;
  std::set<std::uint32_t> begun_;  // counts of restarts
};

}  // namespace ddprun::launcher
