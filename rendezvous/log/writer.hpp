// A writer writes to standard output and standard error from a thread of its own: an agent's
// workers' output and messages, or a daemon's log.
//
// Both may be shared with the user's shell, so they are never made non-blocking. A reader that
// stops (less, Ctrl-S) would block the process and its heartbeats. So the thread polls for room and
// then writes at most PIPE_BUF bytes, up to the end of a line if possible: lines of several agents
// that write to one pipe stay whole, and a blocked standard output does not delay standard error.
// If both are one file (a terminal, 2>&1), one queue has everything in order of arrival.
//
// A line may stay unfinished without other output ending up in it: see open_line.hpp.
//
// Memory is bounded. push() says when a stream's queue is full, and the code that reads the
// workers' pipes then pauses until room_handler is called. What dead workers left in their pipes
// has a limit of its own, and so have our own messages, twice the queue: messages beyond it are
// counted, and once there is room a line at that position says how many were left out. Besides its
// queue, a stream may have as much again in the thread.
//
// Nothing that was pushed is dropped while a reader may come back. If the stream has no reader any
// more (EPIPE, EBADF, a terminal that has hung up), it is closed: one line on the other stream says
// so, and further bytes are discarded. Any other error, usually a full disk, may pass: the write is
// tried again ten times a second, what does not fit in the queue is dropped, and a line at that
// position says how much it was.
//
// Thread rule: push, push_late, say and has_room from any thread; the rest from the owner.
// room_handler is called on the writer's thread and should only post.
#pragma once

#include "rendezvous/log/open_line.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::log {

enum class output_stream { output = 0, errors = 1 };

class writer {
 public:
  struct options {
    int output_fd = 1;  // neither is owned
    int errors_fd = 2;
    std::size_t queue_bytes = 256 * 1024;      // per stream
    std::size_t late_bytes = 8 * 1024 * 1024;  // per stream, beyond the queue, for push_late
    std::string name = "ddprun";               // prefix of the writer's own lines
  };

  // Throws std::runtime_error with one line for the user if no thread can be started.
  writer() : writer(options{}) {}
  explicit writer(options values);
  ~writer();  // as finish(0)
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;

  // Set this before the first push.
  void on_room(std::function<void(output_stream)> handler);

  // Takes all bytes. False: the queue is now full, so push no more before room_handler is called.
  bool push(output_stream stream, const line_part& part);
  bool push(output_stream stream, std::string_view bytes) { return push(stream, {.text = bytes}); }
  bool has_room(output_stream stream) const;

  // For the output that a dead worker left behind, which cannot be paused. False: the reserve is
  // used up, and nothing was taken.
  bool push_late(output_stream stream, const line_part& part);
  bool push_late(output_stream stream, std::string_view bytes) {
    return push_late(stream, {.text = bytes});
  }

  // Writes our own messages, whole lines, to standard error. False: too many of them are queued;
  // workers' output does not count.
  bool say(std::string_view line);

  // True if standard error is a terminal whose last line can be redrawn.
  bool can_redraw() const;
  // Shows what the program waits for, in place of the previous state, until a line is written. The
  // text has no newline and fits one line of the terminal. Only if can_redraw().
  void show_state(std::string_view text);

  // Ends the thread once everything pushed is written; the descriptors may be closed then. `limit`
  // counts from the last byte that was written, so a reader that still reads is waited for. False:
  // output was given up, and if the other stream can be written, a line there says how much is
  // lost. A closed stream, or a disk that is still full after two seconds, is not a failure: true.
  // A thread that is stuck in write(2) is left behind.
  bool finish(std::chrono::milliseconds limit);

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace ddprun::log
