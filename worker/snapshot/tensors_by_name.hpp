// The tensors of a part of a snapshot by their names. A large model has tens of thousands of
// tensors: looked through one by one for each name, they take seconds.
//
// Thread rule: plain values. Ownership: names and tensors are the part's, which must outlive it and
// stay as it is. Of two tensors of one name it has the first, as snapshot_part::find does.
#pragma once

#include "worker/snapshot/snapshot_state.hpp"

#include <map>
#include <string_view>

namespace ddprun::worker {

using tensors_by_name = std::map<std::string_view, const tensor_view*>;

inline tensors_by_name by_name(const snapshot_part& part) {
  tensors_by_name all;
  for (const auto& tensor : part.tensors)
    all.emplace(tensor.name, &tensor);
  return all;
}

}  // namespace ddprun::worker
