// The files into which workers write how far they are, if they like to (DDPRUN_PROGRESS): one for
// each local rank, which only memory holds.
//
// What is in a file is the number of a step, in decimal, with "done" behind it where that has
// ended; anything else says nothing. A worker may write it however often it likes: the agent looks
// when it looks at its ranks.
//
// Thread rule: the main thread; a look is one read of memory. Ownership: the files are this
// object's, and workers find them by this process's /proc.
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

// None: it is no such text.
std::optional<said_step> step_in(std::string_view text);

class progress_files {
 public:
  explicit progress_files(std::uint32_t worker_count);

  // By local rank; empty: the system has given none.
  const std::vector<std::string>& paths() const { return paths_; }

  // A round begins: nothing is known.
  void empty();
  std::optional<said_step> step_of(std::uint32_t local_rank) const;
  // Of those that have said any: "step 1204", "steps 1203 to 1204"; empty: none has.
  std::string reached() const;

 private:
  std::vector<unique_fd> files_;
  std::vector<std::string> paths_;
};

}  // namespace ddprun::launcher::evidence
