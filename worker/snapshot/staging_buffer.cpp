#include "worker/snapshot/staging_buffer.hpp"

#include "worker/snapshot/small_copies.hpp"
#include "worker/snapshot/streaming_copy.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr std::size_t worth_a_thread = std::size_t{64} << 20;
constexpr std::size_t copying_threads_max = 4;

}  // namespace

error_code staging_buffer::grow(std::size_t size) {
  if (size <= size_) return {};
  release();
  void* const made =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return last_system_error();
  // Huge pages mean fewer page faults. The call may fail if there are none.
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

// Training waits for this copy, and one core cannot use the full memory bandwidth.
void staging_buffer::copy_all(const std::vector<piece>& pieces) {
  std::size_t bytes = 0;
  for (const piece& each : pieces)
    bytes += each.from.size();
  const std::size_t threads =
      bytes < worth_a_thread
          ? 1
          : std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, copying_threads_max);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t at = next++; at < pieces.size(); at = next++)
      streaming_copy(pieces[at].to, pieces[at].from);
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads)
      others.emplace_back(work);
  } catch (const std::system_error&) {
    // Without a further thread the copy takes longer.
  }
  work();
  for (auto& other : others)
    other.join();
}

error_code staging_buffer::stage(rank_file_layout& layout,
                                 std::vector<std::function<void()>>* late) {
  if (auto error = grow(layout.header.data_bytes)) return error;
  char* to = bytes_;
  std::vector<piece> pieces;
  small_copies now([](const small_copies::copy& copy) { copy(); });
  small_copies later([late](small_copies::copy copy) { late->push_back(std::move(copy)); });
  for (const std::size_t index : layout.header.order) {
    tensor_view& tensor = layout.tensors[index];
    const std::size_t bytes = bytes_of(tensor).value();
    const bool is_late = late != nullptr && tensor.may_be_late;
    auto copy = std::exchange(tensor.copy, nullptr);
    auto on_device = std::exchange(tensor.on_device, nullptr);
    if (on_device && bytes >= 1 && bytes <= small_tensor_bytes_max) {
      (is_late ? later : now).add(std::move(on_device), bytes, to);
    } else if (copy) {
      if (is_late) {
        late->push_back([copy = std::move(copy), to] { copy(to); });
      } else {
        copy(to);
      }
    } else {
      for (std::size_t at = 0; at < bytes; at += piece_bytes) {
        const piece next{to + at, tensor.bytes.substr(at, piece_bytes)};
        if (is_late) {
          late->push_back([next] { streaming_copy(next.to, next.from); });
        } else {
          pieces.push_back(next);
        }
      }
    }
    tensor.bytes = {to, bytes};
    to += bytes;
  }
  now.finish();
  later.finish();
  copy_all(pieces);
  return {};
}

}  // namespace ddprun::worker
