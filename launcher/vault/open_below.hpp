// Opens what is below a folder without following a link on the way, and what copies need besides.
//
// Thread rule: any thread.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace ddprun::launcher::vault {

// Close-on-exec, and without waiting for the other end of a pipe. `path` is a safe one: see
// is_safe_path. Errors: the system's; ELOOP for a link, ENOTDIR for one in a folder's place.
result<unique_fd> open_below(int folder, std::string_view path, int flags);
// A new file for writing, with the folders above it; it must not be there yet.
result<unique_fd> create_below(int folder, std::string_view path);

// False: errno says why not.
bool set_modified(int file, std::int64_t modified);

inline std::int64_t modified_ns(const struct stat& facts) {
  return static_cast<std::int64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

// Where a copy grows until it is whole.
inline std::string unfinished_name(std::string_view mark) {
  return ".unfinished-" + std::string(mark);
}

}  // namespace ddprun::launcher::vault
