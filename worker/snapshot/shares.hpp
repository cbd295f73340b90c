// Which rank writes what of the state that all ranks have alike: each tensor is in one rank's file,
// and the ranks that write get about as many bytes each. Every rank works that out by itself, from
// the tensors' names, types and shapes, which all have alike; the checksum shows where they do not.
//
// The index names the file of each tensor, as Hugging Face's sharded checkpoints have it
// (model.safetensors.index.json; huggingface_hub,
// docs/source/en/package_reference/serialization.md):
//
//   {"metadata": {"total_size": 12345}, "weight_map": {"model.first.bias":
//   "rank-00001.safetensors"}}
//
// It is for other programs: this one reads the files' own headers.
//
// Pure. Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::worker {

// A rank that has less to write is not worth its file's place among those that all must read.
constexpr std::uint64_t share_bytes_min = std::uint64_t{64} << 20;

// How many ranks write where nobody says it: one where all are on one node, whose disk one rank
// keeps busy; else all that have share_bytes_min to write.
std::uint32_t writers_for(std::uint64_t bytes, std::uint32_t world_size, std::uint32_t nodes);

struct dealt_tensors {
  std::vector<std::uint32_t> rank_of;   // that writes it, of each tensor
  std::vector<std::uint32_t> ranks{0};  // all of these, in order; 0, which writes the values
  std::uint64_t checksum = 0;           // of all this; 0 where rank 0 writes all
  bool is_shared() const { return ranks.size() > 1; }
};

// Writers are spread evenly over the ranks, and so over the nodes: 2 of 8 are ranks 0 and 4.
dealt_tensors deal_out(const snapshot_part& replicated, std::uint32_t writers,
                       std::uint32_t world_size);

// What that rank writes of it.
snapshot_part share_of(const snapshot_part& replicated, const dealt_tensors& dealt,
                       std::uint32_t rank);

// errc::invalid_argument: two tensors have one name, or one that is no UTF-8; `problem` says which.
result<std::string> index_text(const snapshot_part& replicated, const dealt_tensors& dealt,
                               std::string& problem);

}  // namespace ddprun::worker
