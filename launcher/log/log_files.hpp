// The log_files of an agent are written by a thread of their own: a disk that is slow or hangs
// holds up the workers that write to it, never the agent.
//
// A file is opened, and its folders made, when the thread comes to it. Each has a queue: push()
// says when it is full, and whoever reads the workers' pipes then pauses until room_handler is
// called; what workers have left behind in their pipes has a reserve beyond it. Bytes are written
// as they come, at the end of the file (so that another program may cut it short meanwhile).
//
// A file that cannot be written for now (a full disk, a quota, a server that is away) holds up
// nobody: it is tried again ten times a second, what does not fit in its queue is dropped, and a
// line at its place says how much. The person is told when that begins for the first file, and when
// all can be written again.
//
// Thread rule: the owner's thread; the handlers are called on the other one: post from them.
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
    std::size_t queue_bytes = 256 * 1024;      // per file
    std::size_t late_bytes = 8 * 1024 * 1024;  // per file, beyond the queue: for push_late
    // One that nobody writes to any more, and that cannot be written, is given up after this.
    std::chrono::milliseconds patience{10'000};
  };

  log_files() : log_files(options{}) {}
  explicit log_files(options values);
  ~log_files();  // as finish(0)
  log_files(const log_files&) = delete;
  log_files& operator=(const log_files&) = delete;

  // To be set before anything else.
  void on_room(std::function<void(file_id)> handler);
  void on_word(std::function<void(const std::string&)> handler);

  // With those above them.
  void make_folders(std::vector<std::string> paths);

  // The file at `path`, which may be open already. 0: the system has no thread for it, which is
  // said once.
  file_id open(const std::string& path);
  // As often as it was opened.
  void close(file_id id);

  // Takes all bytes. False: the queue is full now, bring no more before room_handler.
  bool push(file_id id, std::string_view bytes);
  bool has_room(file_id id) const;
  // False: the reserve is used up, and nothing was taken. The person is told when that begins, and
  // how much was lost once all that was taken is written.
  bool push_late(file_id id, std::string_view bytes);

  // Ends the thread, once everything pushed is written. `limit` counts from the last byte that the
  // disk took. What is lost then, with what was and has not been told.
  log::output_loss finish(std::chrono::milliseconds limit);

 private:
  struct file;
  struct shared;
  bool start();

  std::shared_ptr<shared> shared_;
};

}  // namespace ddprun::launcher
