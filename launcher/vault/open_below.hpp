// Opens files below a folder without following links on the way, and has the helpers that copies
// need.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/stat.h>

namespace ddprun::launcher::vault {

// Opens close-on-exec, and does not block on a pipe. `path` must be safe: see is_safe_path. Errors:
// the system's; ELOOP for a link, ENOTDIR for a link in place of a folder.
result<unique_fd> open_below(int folder, std::string_view path, int flags);
// Creates a file for writing, with the folders above it. The file must not exist.
result<unique_fd> create_below(int folder, std::string_view path);

// False: errno says why.
bool set_modified(int file, std::int64_t modified);

inline std::int64_t modified_ns(const struct stat& facts) {
  return static_cast<std::int64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

// The name of a copy until it is complete.
inline std::string unfinished_name(std::string_view mark) {
  return ".unfinished-" + std::string(mark);
}

}  // namespace ddprun::launcher::vault
