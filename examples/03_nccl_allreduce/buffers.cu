#include "examples/03_nccl_allreduce/buffers.hpp"

#include <algorithm>
#include <cuda_runtime.h>
#include <stdexcept>

namespace allreduce {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned blocks_max = 1024;

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + what + ": " + cudaGetErrorString(code));
}

// The value is below 4,093, so that a sum over 4,096 ranks stays below 2^24.
__host__ __device__ std::uint32_t value(std::uint64_t at, std::uint32_t rank, std::uint32_t run) {
  return static_cast<std::uint32_t>((at * 7 + rank * 13ULL + run * 29ULL) % 4093);
}

__global__ void fill_values(float* data, std::uint64_t count, std::uint32_t rank,
                            std::uint32_t run) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
    data[at] = static_cast<float>(value(at, rank, run));
}

__global__ void count_differences(const float* data, std::uint64_t count, std::uint32_t world_size,
                                  std::uint32_t run, unsigned long long* wrong) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  unsigned long long found = 0;
  for (std::uint64_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
    std::uint64_t sum = 0;
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
      sum += value(at, rank, run);
    if (data[at] != static_cast<float>(sum)) ++found;
  }
  if (found != 0) atomicAdd(wrong, found);
}

unsigned blocks_for(std::size_t count) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>((count + threads - 1) / threads, 1, blocks_max));
}

}  // namespace

buffers::buffers(std::size_t count) {
  cudaEvent_t begin;
  cudaEvent_t end;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  check(cudaMalloc(&from_, count * sizeof(float)), "memory to reduce");
  check(cudaMalloc(&to_, count * sizeof(float)), "memory for the sum");
  check(cudaMalloc(&wrong_, sizeof(*wrong_)), "memory for the check");
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  begin_ = begin;
  end_ = end;
}

// Errors here are ignored: the process is about to end.
buffers::~buffers() {
  cudaEventDestroy(static_cast<cudaEvent_t>(begin_));
  cudaEventDestroy(static_cast<cudaEvent_t>(end_));
  cudaFree(from_);
  cudaFree(to_);
  cudaFree(wrong_);
  cudaStreamDestroy(stream_);
}

void buffers::fill(float* data, std::size_t count, std::uint32_t rank, std::uint32_t run) {
  fill_values<<<blocks_for(count), threads, 0, stream_>>>(data, count, rank, run);
  check(cudaGetLastError(), "filling");
}

std::uint64_t buffers::count_wrong(const float* data, std::size_t count, std::uint32_t world_size,
                                   std::uint32_t run) {
  unsigned long long wrong = 0;
  check(cudaMemsetAsync(wrong_, 0, sizeof(*wrong_), stream_), "checking");
  count_differences<<<blocks_for(count), threads, 0, stream_>>>(data, count, world_size, run,
                                                                wrong_);
  check(cudaGetLastError(), "checking");
  check(cudaMemcpyAsync(&wrong, wrong_, sizeof wrong, cudaMemcpyDeviceToHost, stream_), "checking");
  check(cudaStreamSynchronize(stream_), "checking");
  return wrong;
}

void buffers::begin_time() {
  check(cudaEventRecord(static_cast<cudaEvent_t>(begin_), stream_), "timing");
}

void buffers::end_time() {
  check(cudaEventRecord(static_cast<cudaEvent_t>(end_), stream_), "timing");
}

double buffers::microseconds() const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin_),
                             static_cast<cudaEvent_t>(end_)),
        "timing");
  return milliseconds * 1000.0;
}

std::string device_name(int device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return "a GPU";
  return properties.name;
}

}  // namespace allreduce
