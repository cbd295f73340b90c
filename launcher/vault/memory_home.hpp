// A memory_home is the folder in memory that the vaults of one agent lie in:
//
//   /dev/shm/ddprun-vault-UID-MARK/owner      "DIR\n", whose job's it is; locked while its agent
//   lives /dev/shm/ddprun-vault-UID-MARK/node-0/    the vault of the node with group rank 0
//
// It is the user's alone (0700). The lock is the kernel's (flock), so it ends with its agent,
// however that ends, and holds between containers that share the file system. What a dead agent
// has left is found by it.
//
// Thread rule: one thread at a time; every call may block.
#pragma once

#include "launcher/vault/vault_rules.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::vault {

// "node-0": the vault of that group rank, in memory and on disk.
std::string node_folder(std::uint32_t group_rank);
// And back. None: it is no such name.
std::optional<std::uint32_t> node_in(std::string_view folder);

class memory_home {
 public:
  memory_home() = default;  // there is none

  // `disk`: where its job keeps copies, a whole path; `problem`: why it could not be made.
  static memory_home make(const std::string& place, std::string_view mark, const std::string& disk,
                          std::string& problem);
  // Takes what a dead agent of this user has left for `disk`, as its owner. Those of other jobs,
  // and how much memory each takes, are in `others`. Nothing that a living agent has is touched.
  static std::vector<memory_home> take_dead(const std::string& place, const std::string& disk,
                                            std::vector<std::string>& others);

  explicit operator bool() const { return static_cast<bool>(owner_); }
  const std::string& path() const { return path_; }
  // With all that is in it.
  void remove();

 private:
  memory_home(std::string path, unique_fd owner);

  std::string path_;
  unique_fd owner_;  // locked
};

// How much room that place has; `problem`: it is no file system in memory.
memory_facts look_at_memory(const std::string& place, std::string& problem);

}  // namespace ddprun::launcher::vault
