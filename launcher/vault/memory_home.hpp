// A memory_home is the folder in memory that holds the vaults of one agent:
//
//   /dev/shm/ddprun-vault-UID-MARK/owner    "DIR\n", the job's --vault; locked
//   /dev/shm/ddprun-vault-UID-MARK/node-0/  the vault of the node with group rank 0
//
// Only the user can enter it (0700). The lock is the kernel's (flock), so it ends with the agent,
// however that ends, and works between containers that share the file system. It tells which
// folders dead agents have left.
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

// Returns "node-0", the vault of that group rank, in memory and on disk.
std::string node_folder(std::uint32_t group_rank);
// The inverse. None: the name has another form.
std::optional<std::uint32_t> node_in(std::string_view folder);

class memory_home {
 public:
  memory_home() = default;  // no folder

  // `disk` is the absolute path where the job keeps copies. `problem`: why it could not be made.
  static memory_home make(const std::string& place, std::string_view mark, const std::string& disk,
                          std::string& problem);
  // Takes over what dead agents of this user have left for `disk`. The folders of other jobs are
  // listed in `others`. Folders of living agents are not touched.
  static std::vector<memory_home> take_dead(const std::string& place, const std::string& disk,
                                            std::vector<std::string>& others);

  explicit operator bool() const { return static_cast<bool>(owner_); }
  const std::string& path() const { return path_; }
  // Removes the folder with its contents.
  void remove();

 private:
  memory_home(std::string path, unique_fd owner);

  std::string path_;
  unique_fd owner_;  // locked
};

// Returns the size of that file system; `problem`: it is not in memory.
memory_facts look_at_memory(const std::string& place, std::string& problem);

}  // namespace ddprun::launcher::vault
