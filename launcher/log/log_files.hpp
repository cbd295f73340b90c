// The log_files of an agent are written by a thread of their own: a disk that is slow or hangs
// blocks the workers that write to it, but never the agent.
//
// The thread opens a file, and creates its folders, when it first writes to it. Each file has a
// queue. push() reports when it is full; the reader of the workers' pipes then pauses until
// room_handler is called. Output that ended workers have left in their pipes has a reserve beyond
// the queue. Bytes are appended to the end of the file, so that another program may truncate it
// meanwhile.
//
// A file that cannot be written for now (a full disk, a quota, an unreachable server) blocks
// nothing: writing is tried again ten times per second, what does not fit in the queue is dropped,
// and a line in its place says how much. The user is told when this begins for the first file, and
// when all files can be written again.
//
// Thread rule: the owner's thread; handlers are called on the writing thread, and should post.
// Memory: per file its queue, as much again while it is written, and the reserve.
#pragma once

#include "rendezvous/log/output_loss.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

class log_files {
 public:
  using file_id = std::uint64_t;  // 0: no file

  struct options {
    std::size_t queue_bytes = 256 * 1024;      // per file, beyond the queue: for push_late
    std::size_t late_bytes = 8 * 1024 * 1024;  // per file, beyond the queue: for push_late
    // A closed file that cannot be written is given up after this.
    std::chrono::milliseconds patience{10'000};
  };

  log_files() : log_files(options{}) {}
  explicit log_files(options values);
  ~log_files();  // as finish(0)
  log_files(const log_files&) = delete;
  log_files& operator=(const log_files&) = delete;

  // Set the handlers before any other call.
  void on_room(std::function<void(file_id)> handler);
  void on_word(std::function<void(const std::string&)> handler);

  // Creates the folders with their parents.
  void make_folders(std::vector<std::string> paths);

  // Returns the file of `path`, which may be open already. 0: the system has no thread for it,
  // which is reported once.
  file_id open(const std::string& path);
  // Call it as often as open().
  void close(file_id id);

  // Takes all bytes. False: the queue is full; wait for room_handler.
  bool push(file_id id, std::string_view bytes);
  bool has_room(file_id id) const;
  // False: the reserve is used up, and nothing was taken. The user is told when that begins, and
  // how much was lost once everything taken is written.
  bool push_late(file_id id, std::string_view bytes);

  // Ends the thread once everything pushed is written. `limit` counts from the last byte that the
  // disk has accepted. Returns what was lost and not reported yet.
  log::output_loss finish(std::chrono::milliseconds limit);

 private:
  struct file;
  struct shared;
  bool start();

  std::shared_ptr<shared> shared_;
};

}  // namespace ddprun::launcher
