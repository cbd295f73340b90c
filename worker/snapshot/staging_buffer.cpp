#include "worker/snapshot/staging_buffer.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace ddprun::worker {

error_code staging_buffer::grow(std::size_t size) {
  if (size <= size_) return {};
  release();
  void* const made =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return {errno, boost::system::system_category()};
  // Fewer page faults; where there are no huge pages it goes without.
  (void)::madvise(made, size, MADV_HUGEPAGE);
  bytes_ = static_cast<char*>(made);
  size_ = size;
  return {};
}

void staging_buffer::release() {
  if (bytes_ != nullptr) ::munmap(bytes_, size_);
  bytes_ = nullptr;
  size_ = 0;
}

error_code staging_buffer::stage(rank_file_layout& layout) {
  if (auto error = grow(layout.header.data_bytes)) return error;
  char* to = bytes_;
  for (const std::size_t index : layout.header.order) {
    tensor_view& tensor = layout.tensors[index];
    const std::size_t bytes = bytes_of(tensor).value();
    if (tensor.copy) {
      tensor.copy(to);
      tensor.copy = nullptr;
    } else if (bytes != 0) {
      std::memcpy(to, tensor.bytes.data(), bytes);
    }
    tensor.bytes = {to, bytes};
    to += bytes;
  }
  return {};
}

}  // namespace ddprun::worker
