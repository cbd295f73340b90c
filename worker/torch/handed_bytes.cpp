#include "worker/torch/handed_bytes.hpp"

#include <ATen/ops/from_blob.h>

namespace ddprun::worker {

byte_broadcast broadcast_over(process_group& group, at::Device device) {
  return [&group, device](std::uint32_t root, char* bytes, std::size_t count) {
    auto here = at::from_blob(bytes, {static_cast<std::int64_t>(count)}, at::kByte);
    if (group.has_gloo()) {
      group.broadcast(here, root);
      return;
    }
    auto there = here.to(device);
    group.broadcast(there, root);
    here.copy_(there);
  };
}

}  // namespace ddprun::worker
