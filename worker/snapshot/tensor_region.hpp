// A region of a tensor is a box in it: where it begins in the whole, and how long it is, in each
// dimension. Pieces of one tensor lie in the files of several ranks, and another number of ranks
// wants other pieces.
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
  std::vector<std::uint64_t> shape;  // of as many dimensions; none: the one element of a scalar
  bool operator==(const tensor_region&) const = default;
};

// Whether it is a region of a tensor of that shape.
bool is_inside(const tensor_region& region, const std::vector<std::uint64_t>& whole);

// How many elements it has; 0 where one dimension is 0.
std::uint64_t elements_of(const tensor_region& region);

// What two regions of one tensor have both; none: nothing.
std::optional<tensor_region> common_part(const tensor_region& one, const tensor_region& other);

// Copies `part`, which is a part of both, from the bytes of the one region to those of the other,
// each with its last dimension running fastest.
void copy_part(const tensor_region& part, std::size_t element_bytes, const tensor_region& from,
               const char* from_bytes, const tensor_region& to, char* to_bytes);

}  // namespace ddprun::worker
