// An agent's log_folder holds its workers' log and error files, laid out as torchrun's:
// DIR/RUN_NODE_RANDOM/attempt_RESTARTS/LOCAL_RANK/{stdout.log,stderr.log,error.json}, with
// filtered_stdout.log and filtered_stderr.log beside the ranks.
//
// A round that is not a restart (a node has joined) has the same number of restarts as the one
// before, whose logs torchrun would overwrite; here its folder is attempt_RESTARTS_round_ROUND.
//
// A run that asks for no files has no folder. The file for torch's @record is then
// $TMPDIR/ddprun_SESSION_round_ROUND_error_LOCAL_RANK.json.
//
// `make` uses the disk; the rest is pure.
#pragma once

#include "launcher/cli/output_options.hpp"
#include "launcher/log/log_route.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/log/writer.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher {

class log_folder {
 public:
  log_folder() = default;  // no folder

  // Creates the folder with its parents. `mark` is unique to this agent. Errors: what is wrong, and
  // what to do.
  static cli::parsed<log_folder> make(const output_options& options, const std::string& run_id,
                                      const std::string& node, const std::string& mark,
                                      const environment_map& environment);

  // Empty: there is no folder.
  const std::string& path() const { return path_; }

  // Call this once for each round, before the calls below. `restarts` is what the workers are told.
  void begin_round(round_number round, std::uint32_t restarts);
  const std::string& attempt() const { return attempt_; }
  // Folders to be created before the workers start; empty: none is needed.
  std::vector<std::string> worker_folders(std::uint32_t worker_count) const;
  // By local rank; empty if nothing can be written.
  std::vector<std::string> error_files(std::uint32_t worker_count) const;
  log_route route(const output_options& options, std::uint32_t local_rank,
                  log::output_stream stream, const std::string& prefix) const;

 private:
  std::string path_;
  std::string errors_;  // without a folder: prefix of the error files
  std::string attempt_;
  round_number round_ = 0;
  std::set<std::uint32_t> begun_;  // numbers of restarts
};

}  // namespace ddprun::launcher
