// The files into which workers may write their progress (DDPRUN_PROGRESS): an anonymous memory file
// for each local rank.
//
// A file holds the number of a step, in decimal, followed by "done" once the step has ended;
// anything else is ignored. A worker may write it as often as it likes: the agent reads it whenever
// it looks at its ranks.
//
// Thread rule: the main thread; a look reads memory only. Ownership: this object owns the files,
// and workers open them through this process's /proc.
#pragma once

#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::evidence {

struct said_step {
  std::uint64_t number = 0;
  bool is_done = false;
  bool operator==(const said_step&) const = default;
};

// None: the text has another form.
std::optional<said_step> step_in(std::string_view text);

class progress_files {
 public:
  explicit progress_files(std::uint32_t worker_count);

  // By local rank; empty: the files could not be created.
  const std::vector<std::string>& paths() const { return paths_; }

  // A round begins: forgets all steps.
  void empty();
  std::optional<said_step> step_of(std::uint32_t local_rank) const;
  // The steps that ranks have reported: "step 1204", "steps 1203 to 1204"; empty: none has.
  std::string reached() const;

 private:
  std::vector<unique_fd> files_;
  std::vector<std::string> paths_;
};

}  // namespace ddprun::launcher::evidence
