#include "worker/snapshot/staging_buffer.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <sys/mman.h>
#include <system_error>
#include <thread>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddprun::worker {
namespace {

constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr std::size_t worth_a_thread = std::size_t{64} << 20;
constexpr std::size_t copying_threads_max = 4;

#ifdef __SSE2__
constexpr std::size_t worth_streaming = std::size_t{256} << 10;
constexpr std::size_t line_bytes = 64;

// Stores that go past the caches: an ordinary one reads first what it is about to write over, and
// the C library streams only what is greater than most of the cache. Nobody reads the copy soon.
void copy(char* to, std::string_view from) {
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % line_bytes;
  if (from.size() < worth_streaming) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  std::memcpy(to, from.data(), before);
  to += before;
  from.remove_prefix(before);
  for (; from.size() >= line_bytes; from.remove_prefix(line_bytes), to += line_bytes) {
    __m128i parts[line_bytes / sizeof(__m128i)];
    std::memcpy(parts, from.data(), line_bytes);
    for (std::size_t at = 0; at < std::size(parts); ++at)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + at, parts[at]);
  }
  std::memcpy(to, from.data(), from.size());
  _mm_sfence();  // before another thread is told that it is there
}
#else
void copy(char* to, std::string_view from) {
  std::memcpy(to, from.data(), from.size());
}
#endif

}  // namespace

error_code staging_buffer::grow(std::size_t size) {
  if (size <= size_) return {};
  release();
  void* const made =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return last_system_error();
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

// One core cannot use all of the memory's speed, and training waits.
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
      copy(pieces[at].to, pieces[at].from);
  };
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads)
      others.emplace_back(work);
  } catch (const std::system_error&) {
    // No room for one more: it takes longer.
  }
  work();
  for (auto& other : others)
    other.join();
}

error_code staging_buffer::stage(rank_file_layout& layout) {
  if (auto error = grow(layout.header.data_bytes)) return error;
  char* to = bytes_;
  std::vector<piece> pieces;
  for (const std::size_t index : layout.header.order) {
    tensor_view& tensor = layout.tensors[index];
    const std::size_t bytes = bytes_of(tensor).value();
    if (tensor.copy) {
      tensor.copy(to);
      tensor.copy = nullptr;
    } else {
      for (std::size_t at = 0; at < bytes; at += piece_bytes)
        pieces.push_back({to + at, tensor.bytes.substr(at, piece_bytes)});
    }
    tensor.bytes = {to, bytes};
    to += bytes;
  }
  copy_all(pieces);
  return {};
}

}  // namespace ddprun::worker
