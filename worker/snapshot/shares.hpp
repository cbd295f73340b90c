// Decides which rank writes which part of the replicated state. Each tensor is in one rank's file,
// and the ranks that write get about the same number of bytes. Every rank computes this by itself
// from the tensors' names, types and shapes, which are the same on all ranks; a checksum reveals if
// they are not. Tensors that are rank 0's (tensor_view::is_rank_0s) have no part in this: rank 0
// writes them beside its share, and other ranks may have others or none.
//
// The index names the file of each tensor, as in Hugging Face's sharded checkpoints
// (model.safetensors.index.json; huggingface_hub,
// docs/source/en/package_reference/serialization.md):
//
//   {"metadata": {"total_size": 12345},
//    "weight_map": {"model.first.bias": "rank-00001.safetensors"}}
//
// It is for other programs; this one reads the files' own headers.
//
// Pure. Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::worker {

// With less to write, a rank is not worth another file that all ranks must read.
constexpr std::uint64_t share_bytes_min = std::uint64_t{64} << 20;

// One rank alone does not keep the disk of a node busy: four write 1.7 times as fast
// (tests/benchmark/README.md). More were not tried.
constexpr std::uint32_t writers_of_a_node_max = 4;

// What several ranks can write: all but what is rank 0's.
std::uint64_t bytes_to_share(const snapshot_part& replicated);

// How many ranks write where nobody says it: all that have share_bytes_min to write, but where all
// are on one node at most writers_of_a_node_max.
std::uint32_t writers_for(std::uint64_t bytes, std::uint32_t world_size, std::uint32_t nodes);

struct dealt_tensors {
  std::vector<std::uint32_t> rank_of;   // the writer of each tensor
  std::vector<std::uint32_t> ranks{0};  // the writers, in order; rank 0 also writes the values
  std::uint64_t checksum = 0;           // of all this, without what is rank 0's
  bool is_shared() const { return ranks.size() > 1; }
};

// Spreads the writers evenly over the ranks, and thus over the nodes: 2 of 8 are ranks 0 and 4.
dealt_tensors deal_out(const snapshot_part& replicated, std::uint32_t writers,
                       std::uint32_t world_size);

// A checksum of the names, types and shapes, without what is rank 0's. It is the same on all ranks,
// however many of them write.
std::uint64_t checksum_of_descriptions(const snapshot_part& replicated);

// The share that this rank writes.
snapshot_part share_of(const snapshot_part& replicated, const dealt_tensors& dealt,
                       std::uint32_t rank);

// errc::invalid_argument if two tensors have the same name, or a name is not UTF-8; see `problem`.
result<std::string> index_text(const snapshot_part& replicated, const dealt_tensors& dealt,
                               std::string& problem);

}  // namespace ddprun::worker
