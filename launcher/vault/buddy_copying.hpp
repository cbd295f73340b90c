// The sending thread of a vault: it copies the newest entry to the buddy, another node, at no more
// than --vault-rate. Nothing waits for it: however slow the buddy is, this node's own copies
// continue (copying.hpp), and at the end of the job a copy in progress is dropped.
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
#include <utility>

namespace ddprun::launcher::vault {

class buddy_copying {
 public:
  explicit buddy_copying(desk& shared) : desk_(shared) {}

  void run();

 private:
  bool is_over() const { return desk_.is_abandoned || desk_.is_ending || desk_.is_over; }
  bool has_work() const;
  void tell_saver_at(const peer& buddy, std::uint32_t of);
  void copy(const peer& buddy, const outgoing& one);
  std::optional<sent_entry> from_here(const outgoing& one) const;
  pace slowly(const peer& buddy, const outgoing& one);

  desk& desk_;
  // The buddy that knows that this node saves, and under which group rank.
  std::optional<std::pair<peer, std::uint32_t>> told_;
  std::optional<std::pair<peer, owned_version>> copied_;  // what that buddy has
  std::chrono::steady_clock::time_point tell_again_;
  std::chrono::steady_clock::time_point try_again_;
};

}  // namespace ddprun::launcher::vault
