// The libnccl that the workers will load, and its unique ids.
//
// It is opened at run time: nothing of ddprun is linked against NCCL, and one build serves every
// version. Of its ABI four functions are used, which have not changed since NCCL 2.3 (nccl.h):
// ncclGetVersion, ncclGetUniqueId, ncclGetErrorString, and ncclGetLastError where it is there
// (2.13). None of them needs a GPU or its driver.
//
// An id names a listener that NCCL opens with it in this process, on a thread of its own, for the
// ranks of one communicator to meet. It lives until they have met, or this process ends: so ids are
// made by a process that does nothing else (main.cpp).
//
// Errors: a line that says what and what to do.
#pragma once

#include "worker/nccl_id.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::launcher {

inline constexpr const char* nccl_library_name = "libnccl.so.2";

class nccl_library {
 public:
  // That of `path`; where it is empty, the one that the system finds. One that is in this process
  // already, as by LD_PRELOAD, comes first: it would in a worker.
  static std::optional<nccl_library> open(const std::string& path, std::string& problem);

  const std::string& path() const { return path_; }
  std::uint32_t version() const { return version_; }  // NCCL_VERSION_CODE: 23007 is 2.30.7
  std::optional<worker::nccl_id> make_id(std::string& problem) const;

 private:
  nccl_library() = default;

  std::string path_;
  std::uint32_t version_ = 0;
  int (*get_unique_id_)(worker::nccl_id*) = nullptr;
  const char* (*get_error_string_)(int) = nullptr;
  const char* (*get_last_error_)(void*) = nullptr;
};

}  // namespace ddprun::launcher
