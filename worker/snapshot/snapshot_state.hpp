// What a program puts into a snapshot, and what it finds in one.
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

// Receives one line a time, without its end. It may be called on another thread of this library.
using message_handler = std::function<void(const std::string& line)>;
void write_to_stderr(const std::string& line);

// Brings the root's bytes to all ranks, which call it with the same root and count, in the same
// order. It throws where the ranks have lost each other.
using byte_broadcast = std::function<void(std::uint32_t root, char* bytes, std::size_t count)>;

// A part of a job's state. Values are small ones, as text: a sampler's place, a learning rate.
struct snapshot_part {
  text_map values;
  std::vector<tensor_view> tensors;
  // Looks at one after the other; tensors_by_name.hpp is for many names. None: there is none.
  const tensor_view* find(std::string_view name) const;
  // What the tensors are long together.
  std::uint64_t bytes() const;
};

struct snapshot_state {
  snapshot_part replicated;  // alike on all ranks: each tensor is written by one, values by rank 0
  snapshot_part own;         // this rank's
};

struct snapshot_info {
  std::uint64_t generation = 0;  // who wrote it: see claim.hpp
  std::uint64_t step = 0;        // the program's own count of progress
  std::uint64_t epoch = 0;       // likewise
  std::uint64_t instance = 0;    // of the run; 0 when the launcher has none
  std::uint64_t round = 1;
  bool tells_progress = false;  // the program calls snapshots::progress()
  bool is_emergency = false;    // saved by the ranks that were left: see emergency.hpp
  bool operator==(const snapshot_info&) const = default;
};

struct resumed_snapshot {
  snapshot_info info;
  std::uint32_t world_size = 1;  // of the job that saved it
  std::string path;
  snapshot_part replicated;
  // None where it was saved by another number of ranks: whose is whose is the program's to say.
  std::optional<snapshot_part> own;
  // Those of which each rank had a piece, where there are more or fewer ranks now; none: it has no
  // such tensors. They are read when a region is asked for.
  std::shared_ptr<const sharded_tensors> sharded;
  // What the tensors' bytes are mapped from; they live as long.
  std::vector<std::shared_ptr<const mapped_file>> bytes;
};

}  // namespace ddprun::worker
