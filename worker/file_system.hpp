// The file system as snapshots use it: the few operations whose order makes a snapshot safe, behind
// an interface, so that tests can fail each of them in turn or cut the power between two.
//
// It is not a general file library. Paths are plain byte strings.
//
// Thread rule: one thread per object; `posix_file_system()` may be used from any.
// Errors: system errors as they come from the kernel.
#pragma once

#include "rendezvous/base/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

struct file_head {
  std::string bytes;
  std::uint64_t file_bytes = 0;
};

class file_system {
 public:
  virtual ~file_system() = default;

  // Makes one folder in one that is there. No error, and `made` is false, when it is there already.
  virtual error_code make_folder(const std::string& path, bool& made) = 0;

  // Makes a new file, writes all of `parts` one after the other, syncs the bytes to the disk, and
  // closes it. An existing file is an error (EEXIST) and stays as it is. On another error the file
  // may be left behind, cut short: remove it.
  virtual error_code write_new(const std::string& path,
                               const std::vector<std::string_view>& parts) = 0;

  // Puts `from` in the place of `to`: whoever opens `to` sees the old file or the new one.
  virtual error_code rename(const std::string& from, const std::string& to) = 0;
  virtual error_code remove(const std::string& path) = 0;

  // Makes the names in the folder (new, renamed, removed) survive a power cut.
  virtual error_code sync_folder(const std::string& path) = 0;

  // The names in the folder, in no order, without "." and "..".
  virtual result<std::vector<std::string>> list(const std::string& path) = 0;

  // The whole file. errc::limit_reached: it is longer than `bytes_max`; errc::not_found: what has
  // that name is no file but a folder, a pipe or the like.
  virtual result<std::string> read(const std::string& path, std::size_t bytes_max) = 0;

  // Its first bytes, at most so many, and the length of all of it.
  virtual result<file_head> read_head(const std::string& path, std::size_t bytes_max) = 0;
};

file_system& posix_file_system();

}  // namespace ddprun::worker
