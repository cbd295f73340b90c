// Indexes the tensors of a part of a snapshot by name. A large model has tens of thousands of
// tensors, and a linear search for each name would take seconds.
//
// Thread rule: plain values. Ownership: names and tensors belong to the part, which must outlive
// the index and not change. Of two tensors with one name it has the first, like
// snapshot_part::find.
#pragma once

#include "worker/snapshot/snapshot_state.hpp"

#include <functional>
#include <map>
#include <string_view>

namespace ddprun::worker {

template <typename Less>
using tensors_ordered_by = std::map<std::string_view, const tensor_view*, Less>;
using tensors_by_name = tensors_ordered_by<std::less<std::string_view>>;

// `less` orders names.
template <typename Less = std::less<std::string_view>>
tensors_ordered_by<Less> by_name(const snapshot_part& part, const Less& less = {}) {
  tensors_ordered_by<Less> all(less);
  for (const auto& tensor : part.tensors)
    all.emplace(tensor.name, &tensor);
  return all;
}

}  // namespace ddprun::worker
