// The memory of one GPU that is reduced, filled and checked there: what the sum over all ranks must
// be is known to each of them. C++17, for nvcc reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct CUstream_st;

namespace allreduce {

// Element i of rank r in run k is a small whole number, so that float32 sums are exact for up to
// 4,096 ranks, whatever their order.
class buffers {
 public:
  // On the current device. Throws std::runtime_error, which names what CUDA said.
  explicit buffers(std::size_t count);
  ~buffers();
  buffers(const buffers&) = delete;
  buffers& operator=(const buffers&) = delete;

  CUstream_st* stream() const { return stream_; }
  float* from() { return from_; }
  float* to() { return to_; }

  void fill(float* data, std::size_t count, std::uint32_t rank, std::uint32_t run);
  // Elements that are not the sum of what all ranks have filled in; waits for the stream.
  std::uint64_t count_wrong(const float* data, std::size_t count, std::uint32_t world_size,
                            std::uint32_t run);

  // The time that the stream takes from begin_time() to end_time(); it can be read once the stream
  // is through.
  void begin_time();
  void end_time();
  double microseconds() const;

 private:
  CUstream_st* stream_ = nullptr;
  float* from_ = nullptr;
  float* to_ = nullptr;
  unsigned long long* wrong_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
};

std::string device_name(int device);

}  // namespace allreduce
