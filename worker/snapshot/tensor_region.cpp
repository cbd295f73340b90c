#include "worker/snapshot/tensor_region.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun::worker {
namespace {

// The position of an element of the whole within a region's bytes, in elements.
std::uint64_t place_in(const tensor_region& region, const std::vector<std::uint64_t>& at) {
  std::uint64_t place = 0;
  for (std::size_t dimension = 0; dimension < at.size(); ++dimension)
    place = place * region.shape[dimension] + (at[dimension] - region.offset[dimension]);
  return place;
}

// From this dimension on both regions have the part's length, so these elements are contiguous.
std::size_t first_of_run(const tensor_region& part, const tensor_region& from,
                         const tensor_region& to) {
  std::size_t first = part.shape.size();
  while (first > 0) {
    --first;
    const bool is_whole =
        from.shape[first] == part.shape[first] && to.shape[first] == part.shape[first];
    if (!is_whole) break;
  }
  return first;
}

}  // namespace

bool is_inside(const tensor_region& region, const std::vector<std::uint64_t>& whole) {
  if (region.offset.size() != whole.size() || region.shape.size() != whole.size()) return false;
  for (std::size_t dimension = 0; dimension < whole.size(); ++dimension) {
    if (region.offset[dimension] > whole[dimension]) return false;
    if (region.shape[dimension] > whole[dimension] - region.offset[dimension]) return false;
  }
  return true;
}

std::uint64_t elements_of(const tensor_region& region) {
  std::uint64_t count = 1;
  for (const std::uint64_t length : region.shape)
    count *= length;
  return count;
}

std::optional<tensor_region> common_part(const tensor_region& one, const tensor_region& other) {
  tensor_region part;
  for (std::size_t dimension = 0; dimension < one.shape.size(); ++dimension) {
    const std::uint64_t begin = std::max(one.offset[dimension], other.offset[dimension]);
    const std::uint64_t end = std::min(one.offset[dimension] + one.shape[dimension],
                                       other.offset[dimension] + other.shape[dimension]);
    if (begin >= end) return std::nullopt;
    part.offset.push_back(begin);
    part.shape.push_back(end - begin);
  }
  return part;
}

void copy_part(const tensor_region& part, std::size_t element_bytes, const tensor_region& from,
               const char* from_bytes, const tensor_region& to, char* to_bytes) {
  const std::size_t first = first_of_run(part, from, to);
  std::uint64_t run = element_bytes;
  for (std::size_t dimension = first; dimension < part.shape.size(); ++dimension)
    run *= part.shape[dimension];
  auto at = part.offset;
  for (;;) {
    std::memcpy(to_bytes + place_in(to, at) * element_bytes,
                from_bytes + place_in(from, at) * element_bytes, run);
    // Advance to the next run, like a counter whose last digit is the dimension before the run.
    std::size_t dimension = first;
    for (;;) {
      if (dimension == 0) return;
      --dimension;
      if (++at[dimension] < part.offset[dimension] + part.shape[dimension]) break;
      at[dimension] = part.offset[dimension];
    }
  }
}

}  // namespace ddprun::worker
