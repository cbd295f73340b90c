// A region of a tensor is a box within it, given by its offset and length in each dimension. The
// pieces of one tensor are in the files of several ranks, and another number of ranks needs other
// pieces.
//
// Pure. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun::worker {

struct tensor_region {
  std::vector<std::uint64_t> offset;
  std::vector<std::uint64_t> shape;  // of the same number of dimensions; empty for a scalar
  bool operator==(const tensor_region&) const = default;
};

// True if it is a region of a tensor of that shape.
bool is_inside(const tensor_region& region, const std::vector<std::uint64_t>& whole);

// The number of elements: 0 if a dimension is 0.
std::uint64_t elements_of(const tensor_region& region);

// The overlap of two regions of one tensor, if there is any.
std::optional<tensor_region> common_part(const tensor_region& one, const tensor_region& other);

// Copies `part`, which lies in both regions, from the bytes of one region to those of the other.
// The last dimension is contiguous in both.
void copy_part(const tensor_region& part, std::size_t element_bytes, const tensor_region& from,
               const char* from_bytes, const tensor_region& to, char* to_bytes);

}  // namespace ddprun::worker
