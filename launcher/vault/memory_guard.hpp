// The memory guard sees to it that a vault takes no more memory than it may, whatever workers
// write.
//
// The oldest whole entries go first, so that one more as large as the newest has room. What is
// being written all the same, and has no room, is made hollow: its pages are given back as fast as
// they are written, which the writer does not notice. So a save that is too large costs that save,
// and neither the worker, nor the newest whole entry, nor the memory of others. A hollow file has
// its sticky bit set, by which every agent knows it; its entry is never taken for a whole one, and
// goes when the worker has marked it or has ended.
//
// How much it may take is --vault-size, and less where the node, its cgroup or the file system has
// less left.
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

// Which of these give their pages back, the largest first, so that no more than `limit` is taken;
// those that are hollow already do in any case. None of a whole entry.
std::vector<found_file> to_hollow(const std::vector<found_file>& found, std::uint64_t limit);

// Gives back what it occupies, and marks it. False: it is not there any more.
bool make_hollow(int memory, const found_file& file);
// Removes the hollow ones, with the entries that they are part of: no worker writes there.
void remove_hollow(int memory);

class memory_guard {
 public:
  explicit memory_guard(desk& shared) : desk_(shared) {}

  void run();

 private:
  // How long it may rest.
  std::chrono::milliseconds look(const shelf& here);
  std::uint64_t limit_now(const shelf& here, std::uint64_t occupied);

  desk& desk_;
  std::uint64_t left_ = 0;  // of the node's memory, at the last look
  std::chrono::steady_clock::time_point look_at_memory_;
  bool is_told_ = false;  // that something does not fit
};

}  // namespace ddprun::launcher::vault
