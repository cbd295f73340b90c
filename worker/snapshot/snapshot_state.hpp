// The content of a snapshot, as a program saves it and gets it back.
#pragma once

#include "worker/snapshot/tensor_view.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class mapped_file;      // file_system.hpp
class sharded_tensors;  // sharded_tensors.hpp

using text_map = std::map<std::string, std::string>;

// Receives one line at a time, without its newline. A thread of this library may call it.
using message_handler = std::function<void(const std::string& line)>;
void write_to_stderr(const std::string& line);

// Copies the root's bytes to all ranks, which call it with the same root and count, in the same
// order. It throws if the ranks have lost each other.
using byte_broadcast = std::function<void(std::uint32_t root, char* bytes, std::size_t count)>;

// A part of a job's state. Values are small texts, such as a sampler's position or a learning rate.
struct snapshot_part {
  text_map values;
  std::vector<tensor_view> tensors;
  // Searches linearly; use tensors_by_name.hpp for many names. nullptr if there is no such tensor.
  const tensor_view* find(std::string_view name) const;
  // The total length of the tensors.
  std::uint64_t bytes() const;
};

struct snapshot_state {
  // Equal on all ranks: rank 0 writes the values, and any rank may be the writer of a tensor. What
  // is not equal must be marked, or the snapshot is a mixture of several ranks' states: see
  // tensor_view::is_rank_0s. Names, types and shapes are compared at each save. Bytes are compared
  // only in an emergency, because each rank would have to fetch the whole state from its GPU
  // instead of its share, and because ranks on different processors may differ in the last bit,
  // which is no reason to be without a snapshot.
  snapshot_part replicated;
  snapshot_part own;  // this rank's own
};

struct snapshot_info {
  std::uint64_t generation = 0;  // of the writer: see claim.hpp
  std::uint64_t step = 0;        // the program's own count of progress
  std::uint64_t epoch = 0;       // likewise
  std::uint64_t instance = 0;    // of the run; 0 if the launcher has none
  std::uint64_t round = 1;
  bool tells_progress = false;  // the program calls snapshots::progress()
  bool is_emergency = false;    // saved by survivors: see emergency.hpp
  bool operator==(const snapshot_info&) const = default;
};

struct resumed_snapshot {
  snapshot_info info;
  std::uint32_t world_size = 1;  // of the job that saved it
  std::string path;
  bool is_in_vault = false;  // of this node: vault_tier.hpp
  snapshot_part replicated;
  // None if another number of ranks has saved it: only the program can decide how to distribute it.
  std::optional<snapshot_part> own;
  // The tensors of which each rank had a piece, if the number of ranks has changed; none if there
  // are no such tensors. A region is read when it is requested.
  std::shared_ptr<const sharded_tensors> sharded;
  // The files that the tensors' bytes are mapped from.
  std::vector<std::shared_ptr<const mapped_file>> bytes;
};

}  // namespace ddprun::worker
