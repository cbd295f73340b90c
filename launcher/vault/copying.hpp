// The copying thread of a vault: once per second it looks through the workers' folder and copies
// the newest complete entry to disk, slowly while workers run, and at full speed when a copy is
// wanted at once. Then it hands the entry to the sending thread (buddy_copying.hpp).
//
// Thread rule: `run` is the thread, at a low priority; it ends when the desk says so, or stays
// blocked in a disk that hangs.
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
  // False: the newest entry could not be copied to disk.
  bool look();
  bool keep(int memory, const entry& newest);
  void note_saver();
  void leave_to_buddy(const entry& newest);
  bool is_among_nodes() const;
  bool is_set_aside(const version& what) const;
  pace slowly(const version& what);
  void end(bool is_kept);

  desk& desk_;
  std::shared_ptr<const shelf> here_;
  std::set<std::string> on_disk_;  // the folders on disk, each an entry
  bool is_all_kept_ = true;        // the newest entries of all earlier shelves are on disk
  std::optional<version> failed_;  // the entry that could not be copied last
  std::chrono::steady_clock::time_point try_again_;
};

}  // namespace ddprun::launcher::vault
