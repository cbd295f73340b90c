#include "worker/snapshot/streaming_copy.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ddprun::worker {

#ifdef __SSE2__
namespace {

constexpr std::size_t worth_streaming = std::size_t{256} << 10;
constexpr std::size_t line_bytes = 64;
constexpr std::size_t parts_of_line = line_bytes / sizeof(__m128i);

}  // namespace

// Two halves side by side: the processor prefetches both, which takes a sixth of the time off on an
// AMD EPYC, whose one core is far from what its memory can deliver.
void streaming_copy(char* to, std::string_view from) {
  if (from.size() < worth_streaming) {
    std::memcpy(to, from.data(), from.size());
    return;
  }
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % line_bytes;
  std::memcpy(to, from.data(), before);
  to += before;
  from.remove_prefix(before);
  const std::size_t half = from.size() / 2 / line_bytes * line_bytes;
  for (std::size_t at = 0; at < half; at += line_bytes) {
    __m128i lines[2 * parts_of_line];
    std::memcpy(lines, from.data() + at, line_bytes);
    std::memcpy(lines + parts_of_line, from.data() + half + at, line_bytes);
    for (std::size_t part = 0; part < parts_of_line; ++part)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + part, lines[part]);
    for (std::size_t part = 0; part < parts_of_line; ++part)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + half + at) + part,
                       lines[parts_of_line + part]);
  }
  from.remove_prefix(2 * half);
  to += 2 * half;
  std::memcpy(to, from.data(), from.size());
  _mm_sfence();  // makes the copy visible before another thread is told of it
}
#else
void streaming_copy(char* to, std::string_view from) {
  std::memcpy(to, from.data(), from.size());
}
#endif

}  // namespace ddprun::worker
