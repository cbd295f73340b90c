// NCCL and the CUDA runtime as one rank sees them, without a GPU. The unit tests of worker/nccl
// link it in place of both. It moves no data, but records its calls and answers what the test sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::tests {

struct nccl_call {
  std::string name;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  int type = -1;
  int operation = -1;  // or the root, or the other rank
  void* stream = nullptr;
};

// What the test sets, and what it can check.
struct fake_nccl {
  int version = 22809;
  int gpus = 8;
  int cuda_code = 0;          // returned by cudaGetDeviceCount and cudaSetDevice
  int looks_until_done = 2;   // polls until a call has completed
  bool never_done = false;    // no call ever completes
  int call_code = 0;          // returned when enqueuing; 0: in progress
  int asynchronous_code = 0;  // reported by NCCL's own threads
  int stream_code = 0;        // 0: completed
  bool stream_is_busy = false;
  std::string last_error;

  int device = -1;
  int ranks = 0;
  int rank = -1;
  bool is_blocking = true;
  std::vector<std::string> ids;  // hexadecimal, of the last init
  int group_depth = 0;
  int open = 0;  // communicators that exist
  int aborted = 0;
  int looks = 0;  // polls so far
  std::vector<nccl_call> calls;
};

// The only instance. A test starts with a fresh one.
fake_nccl& nccl();
fake_nccl& fresh_nccl();

}  // namespace ddprun::tests
