// The libnccl that the workers will load, and its unique ids.
//
// It is loaded at run time: ddprun is not linked against NCCL, and one build works with every
// version. Four functions of its ABI are used, which have not changed since NCCL 2.3 (nccl.h):
// ncclGetVersion, ncclGetUniqueId, ncclGetErrorString, and ncclGetLastError if it exists (2.13).
// None needs a GPU or its driver.
//
// For each id NCCL opens a listener in this process, on a thread of its own, where the ranks of one
// communicator meet. It lives until they have met, or this process ends; so a process that does
// nothing else makes the ids (main.cpp).
//
// Errors: a line that says what is wrong and what to do.
#pragma once

#include "worker/nccl_id.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun::launcher {

inline constexpr const char* nccl_library_name = "libnccl.so.2";

class nccl_library {
 public:
  // Opens the library at `path`; if that is empty, the one that the system finds. A library that
  // this process has loaded already, as by LD_PRELOAD, takes precedence, as it would in a worker.
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
