// The file system as snapshots use it: the few operations whose order makes a snapshot safe, behind
// an interface, so that tests can fail each of them in turn or cut the power between two.
//
// It is not a general file library. Paths are plain byte strings.
//
// Thread rule: one thread per object; `posix_file_system()` may be used from any.
// Errors: system errors as they come from the kernel.
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

// A file that is being made. What is not finished may be left behind, cut short: remove it.
class output_file {
 public:
  virtual ~output_file() = default;
  virtual error_code write(std::string_view bytes) = 0;
  // Syncs the bytes to the disk, and closes the file.
  virtual error_code finish() = 0;
};

// The bytes of a file as they lie on the disk, read when they are looked at. A file that is cut
// short by somebody meanwhile ends the process (SIGBUS).
class mapped_file {
 public:
  virtual ~mapped_file() = default;
  virtual std::string_view bytes() const = 0;
};

class file_system {
 public:
  virtual ~file_system() = default;

  // Makes one folder in one that is there. No error, and `made` is false, when it is there already.
  virtual error_code make_folder(const std::string& path, bool& made) = 0;

  // Makes a new file. An existing one is an error (EEXIST) and stays as it is.
  virtual result<std::unique_ptr<output_file>> create(const std::string& path) = 0;

  // Gives the file another name. An existing one is an error (EEXIST), and both stay as they are.
  // Where the file system can do no such thing, what has that name is replaced.
  virtual error_code rename_to_new(const std::string& from, const std::string& to) = 0;
  virtual error_code remove(const std::string& path) = 0;
  virtual error_code remove_folder(const std::string& path) = 0;  // an empty one

  // Makes the names in the folder (new, renamed, removed) survive a power cut.
  virtual error_code sync_folder(const std::string& path) = 0;

  // The names in the folder, in no order, without "." and "..".
  virtual result<std::vector<std::string>> list(const std::string& path) = 0;

  // The whole file. errc::limit_reached: it is longer than `bytes_max`; errc::not_found: what has
  // that name is no file but a folder, a pipe or the like.
  virtual result<std::string> read(const std::string& path, std::size_t bytes_max) = 0;

  // Its bytes from the first to the last, in pieces. errc::not_found as there.
  using piece_handler = std::function<void(std::string_view piece)>;
  virtual error_code scan(const std::string& path, const piece_handler& on_piece) = 0;

  // The whole file, of any length. errc::not_found as there. A disk that fails while they are
  // looked at ends the process (SIGBUS): scan it first.
  virtual result<std::unique_ptr<mapped_file>> map(const std::string& path) = 0;

  // The length of it. errc::not_found as there.
  virtual result<std::uint64_t> size(const std::string& path) = 0;

  // For how long this machine may show the names in a folder as they were, when another one has
  // changed them: a network file system remembers them. 0: it shows them as they are.
  virtual std::chrono::milliseconds names_kept(const std::string& /*path*/) { return {}; }
  // Lets time pass, for that.
  virtual void pause(std::chrono::milliseconds /*length*/) {}
};

// `create`, `write` and `finish` at once. On an error the file may be left behind.
error_code write_whole(file_system& files, const std::string& path, std::string_view bytes);

file_system& posix_file_system();

}  // namespace ddprun::worker
