#include "worker/snapshot/streaming_copy.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddprun::worker {

#ifdef __SSE2__
namespace {

constexpr std::size_t worth_streaming = std::size_t{256} << 10;
constexpr std::size_t line_bytes = 64;

}  // namespace

void streaming_copy(char* to, std::string_view from) {
  if (from.size() < worth_streaming) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % line_bytes;
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
  _mm_sfence();  // makes the copy visible before another thread is told of it
}
#else
void streaming_copy(char* to, std::string_view from) {
  std::memcpy(to, from.data(), from.size());
}
#endif

}  // namespace ddprun::worker
