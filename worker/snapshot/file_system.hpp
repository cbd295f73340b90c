// The file system operations of snapshots, whose order makes them safe. They are behind an
// interface, so that tests can make each of them fail, or cut the power between two.
//
// It is not a general file library. Paths are plain byte strings.
//
// Thread rule: one thread per object; any thread may use `posix_file_system()`. Errors: the
// kernel's, unless a function says otherwise.
#pragma once

#include "rendezvous/base/error.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::worker {

// A file that is being written. One that is not finished may be left behind, cut short: remove it.
class output_file {
 public:
  virtual ~output_file() = default;
  virtual error_code write(std::string_view bytes) = 0;
  // Syncs the bytes to the disk, and closes the file.
  virtual error_code finish() = 0;
};

// The bytes of a file, read from the disk when they are accessed. If the file is truncated
// meanwhile, accessing them ends the process (SIGBUS).
class mapped_file {
 public:
  virtual ~mapped_file() = default;
  virtual std::string_view bytes() const = 0;
};

class file_system {
 public:
  virtual ~file_system() = default;

  // Creates a folder within an existing one. If it exists already, that is no error, and `made` is
  // false.
  virtual error_code make_folder(const std::string& path, bool& made) = 0;

  // Creates a new file. If it exists already, the error is EEXIST and the file is not changed.
  virtual result<std::unique_ptr<output_file>> create(const std::string& path) = 0;

  // Renames a file. If the new name exists, the error is EEXIST and both files stay; file systems
  // that cannot do that replace the existing file instead.
  virtual error_code rename_to_new(const std::string& from, const std::string& to) = 0;
  virtual error_code remove(const std::string& path) = 0;
  virtual error_code remove_folder(const std::string& path) = 0;  // must be empty

  // Makes changes of the folder's names (new, renamed, removed) survive a power cut.
  virtual error_code sync_folder(const std::string& path) = 0;

  // The names in the folder, in no particular order, without "." and "..".
  virtual result<std::vector<std::string>> list(const std::string& path) = 0;

  // Reads the whole file. errc::limit_reached if it is longer than `bytes_max`; errc::not_found if
  // the name is not a file but a folder, a pipe or the like.
  virtual result<std::string> read(const std::string& path, std::size_t bytes_max) = 0;

  // Reads the file from the first to the last byte, in pieces. errc::not_found as for read().
  using piece_handler = std::function<void(std::string_view piece)>;
  virtual error_code scan(const std::string& path, const piece_handler& on_piece) = 0;

  // Maps the whole file, of any length. errc::not_found as for read(). A disk that fails when the
  // bytes are accessed ends the process (SIGBUS), so scan it first.
  virtual result<std::unique_ptr<mapped_file>> map(const std::string& path) = 0;

  // The file's length. errc::not_found as for read().
  virtual result<std::uint64_t> size(const std::string& path) = 0;

  // For how long this machine may show outdated names of a folder that another machine has changed,
  // because a network file system caches them. 0 if names are always current.
  virtual std::chrono::milliseconds names_kept(const std::string& /*path*/) { return {}; }
  // Sleeps, in order to wait for that.
  virtual void pause(std::chrono::milliseconds /*length*/) {}
};

// Calls `create`, `write` and `finish`. On an error the file may be left behind.
error_code write_whole(file_system& files, const std::string& path, std::string_view bytes);

file_system& posix_file_system();

}  // namespace ddprun::worker
