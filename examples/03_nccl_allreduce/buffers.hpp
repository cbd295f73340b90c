// Memory on one GPU that is filled, reduced and checked there: every rank knows the expected sum.
// It is C++17, because nvcc compiles it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct CUstream_st;

namespace allreduce {

// Element i of rank r in run k is a small integer, so that float32 sums of up to 4,096 ranks are
// exact in any order.
class buffers {
 public:
  // Allocates on the current device. Throws std::runtime_error with CUDA's error.
  explicit buffers(std::size_t count);
  ~buffers();
  buffers(const buffers&) = delete;
  buffers& operator=(const buffers&) = delete;

  CUstream_st* stream() const { return stream_; }
  float* from() { return from_; }
  float* to() { return to_; }

  void fill(float* data, std::size_t count, std::uint32_t rank, std::uint32_t run);
  // The number of elements that differ from the sum over all ranks. Waits for the stream.
  std::uint64_t count_wrong(const float* data, std::size_t count, std::uint32_t world_size,
                            std::uint32_t run);

  // The time that the stream takes from begin_time() to end_time(). It can be read after the stream
  // has completed.
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
