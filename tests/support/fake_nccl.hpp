// NCCL and the CUDA runtime as one rank sees them, without a GPU: linked in their place by the unit
// tests of worker/nccl. It moves no data; it says what it was asked, and answers what the test
// tells it to.
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

// Everything that the test sets, and sees.
struct fake_nccl {
  int version = 22809;
  int gpus = 8;
  int cuda_code = 0;          // of cudaGetDeviceCount and cudaSetDevice
  int looks_until_done = 2;   // at what is in progress, before it is
  bool never_done = false;    // what is in progress stays so
  int call_code = 0;          // of what is enqueued; 0: it is in progress
  int asynchronous_code = 0;  // of NCCL's own threads
  int stream_code = 0;        // 0: it is through
  bool stream_is_busy = false;
  std::string last_error;

  int device = -1;
  int ranks = 0;
  int rank = -1;
  bool is_blocking = true;
  std::vector<std::string> ids;  // hexadecimal, of the last init
  int group_depth = 0;
  int open = 0;  // communicators
  int aborted = 0;
  int looks = 0;  // at what is in progress
  std::vector<nccl_call> calls;
};

// The only one. A test begins with a fresh one.
fake_nccl& nccl();
fake_nccl& fresh_nccl();

}  // namespace ddprun::tests
