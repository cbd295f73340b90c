// The copying thread of a vault: it looks through the workers' folder each second, keeps the newest
// complete entry on disk, slowly while workers run and at once where that is asked for, and leaves
// it to the sending thread then (buddy_copying.hpp).
//
// Thread rule: `run` is the thread, at a low priority; it ends when the desk says so, or stays
// where a disk hangs.
#pragma once

#include "launcher/vault/desk.hpp"
#include "launcher/vault/vault_files.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::launcher::vault {

class copying {
 public:
  explicit copying(desk& shared) : desk_(shared) {}

  void run();

 private:
  void enter(std::shared_ptr<const shelf> next);
  // False: the newest is not on disk, though it was tried.
  bool look();
  bool keep(int memory, const entry& newest);
  void note_saver();
  void leave_to_buddy(const entry& newest);
  bool is_set_aside(const version& what) const;
  pace slowly(const version& what);
  void end(bool is_kept);

  desk& desk_;
  std::shared_ptr<const shelf> here_;
  std::set<std::string> on_disk_;  // names of its folders there
  bool is_all_kept_ = true;        // of the shelves before this one
  std::optional<version> failed_;  // to copy, the last time
  std::chrono::steady_clock::time_point try_again_;
};

}  // namespace ddprun::launcher::vault
