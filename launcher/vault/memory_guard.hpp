// The memory guard keeps a vault within its share of memory, whatever workers write.
//
// The oldest complete entries are removed first, so that there is room for one more as large as the
// newest. A file that is still being written and has no room is made hollow: its pages are freed as
// fast as they are written, which the writer does not notice. So a save that is too large costs
// only that save, and not the worker, the newest complete entry, or the memory of other programs. A
// hollow file has its sticky bit set, so that every agent recognises it; its entry never counts as
// complete, and is removed when the worker has marked it or has ended.
//
// The share is --vault-size, or less if the node, its cgroup or the file system has less left.
//
// Thread rule: `run` is a thread of its own; it ends when the desk says so.
#pragma once

#include "launcher/vault/desk.hpp"
#include "launcher/vault/vault_files.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::launcher::vault {

// Returns the files to make hollow so that no more than `limit` is occupied, the largest first, and
// all that are hollow already. Files of complete entries are never among them.
std::vector<found_file> to_hollow(const std::vector<found_file>& found, std::uint64_t limit);

// Frees the file's pages and marks it. False: the file is gone.
bool make_hollow(int memory, const found_file& file);
// Removes the hollow files and their entries. Call it while no worker writes.
void remove_hollow(int memory);

class memory_guard {
 public:
  explicit memory_guard(desk& shared) : desk_(shared) {}

  void run();

 private:
  // Returns how long it may sleep.
  std::chrono::milliseconds look(const shelf& here);
  std::uint64_t limit_now(const shelf& here, std::uint64_t occupied);

  desk& desk_;
  std::uint64_t left_ = 0;  // of the node's memory, when last asked
  std::chrono::steady_clock::time_point look_at_memory_;
  bool is_told_ = false;  // a warning was printed
};

}  // namespace ddprun::launcher::vault
