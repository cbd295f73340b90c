#include "worker/snapshot/small_copies.hpp"

#include "rendezvous/base/error.hpp"

#include <utility>

namespace ddprun::worker {

void small_copies::add(std::shared_ptr<const device_bytes> from, std::size_t bytes, char* to) {
  DDPRUN_ASSERT(bytes >= 1 && bytes <= small_tensor_bytes_max);
  batch& to_fill = open_[from->device()];
  const bool is_full = to_fill.bytes + bytes > small_copies_bytes_max ||
                       to_fill.tensors.size() == small_copies_count_max;
  if (is_full) give(to_fill);
  to_fill.tensors.push_back({std::move(from), to});
  to_fill.bytes += bytes;
}

void small_copies::finish() {
  for (auto& [device, rest] : open_) {
    if (!rest.tensors.empty()) give(rest);
  }
}

void small_copies::give(batch& full) {
  take_([tensors = std::exchange(full, {}).tensors] { tensors.front().from->bring(tensors); });
}

}  // namespace ddprun::worker
