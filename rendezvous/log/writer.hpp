// A writer puts bytes on standard output and standard error from a thread of its own: for an agent
// its workers' output and its own words, for a daemon its log.
//
// Both may be shared with the person's shell, so they are never made non-blocking: a reader that
// stops (less, Ctrl-S) would stop the process, its heartbeats too. The thread asks the system for
// room and then writes at most PIPE_BUF bytes, ending at a line where it can: lines of several
// agents that write to one pipe stay whole, and a blocked standard output does not hold up standard
// error. Where both are one file (a terminal, 2>&1) one queue has all, in the order in which it
// came.
//
// A line may be left open, and nobody's words land in it: see open_line.hpp.
//
// Memory is bounded: push() says when a stream's queue is full, and whoever reads the workers'
// pipes then pauses until room_handler is called. What workers have left behind in their pipes has
// a reserve of its own, and words of our own another, of twice the queue: beyond it they are
// counted, and once there is room one line says in their place how many were left out. Beside the
// queue as much again may be with the thread.
//
// Nothing that was pushed is dropped while a reader may come back. Where nobody can read any more
// (EPIPE, EBADF, a terminal that has hung up) the stream is closed: one line on the other says so,
// and all further bytes for it are forgotten. Any other error, a full disk above all, may pass: the
// write is tried again ten times a second, what does not fit in the queue is dropped, and a line at
// its place says how much that was.
//
// Thread rule: push, push_late, say and has_room from any thread; the rest from the owner.
// room_handler is called by the writer's thread: post from it.
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
    std::size_t late_bytes = 8 * 1024 * 1024;  // per stream, beyond the queue: for push_late
    std::string name = "ddprun";               // in front of the writer's own lines
  };

  // Throws std::runtime_error, with one line for the person, where the system has no thread left.
  writer() : writer(options{}) {}
  explicit writer(options values);
  ~writer();  // as finish(0)
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;

  // To be set before the first push.
  void on_room(std::function<void(output_stream)> handler);

  // Takes all bytes. False: the queue is full now, bring no more before room_handler.
  bool push(output_stream stream, const line_part& part);
  bool push(output_stream stream, std::string_view bytes) { return push(stream, {.text = bytes}); }
  bool has_room(output_stream stream) const;

  // What a worker that has ended left behind, which waits for nobody. False: the reserve is used
  // up, and nothing was taken.
  bool push_late(output_stream stream, const line_part& part);
  bool push_late(output_stream stream, std::string_view bytes) {
    return push_late(stream, {.text = bytes});
  }

  // Our own words, whole lines, to standard error. False: too many of them wait already, whatever
  // else does.
  bool say(std::string_view line);

  // True: standard error is a terminal whose last line can be drawn anew.
  bool can_redraw() const;
  // What we wait for, in place of the state before, until somebody writes a line: without a
  // newline, and short enough for one line of the terminal. Only where can_redraw().
  void show_state(std::string_view text);

  // Ends the thread, once everything pushed is written; the descriptors may be closed then. `limit`
  // counts from the last byte that a reader took: one that still reads is waited for. False: it was
  // given up, and if the other stream can be written, a line there says how much is lost. (A stream
  // that is closed, or a disk that is still full after two seconds, is nobody's fault: true.) Only
  // a thread that is stuck in write(2) itself is left behind.
  bool finish(std::chrono::milliseconds limit);

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace ddprun::log
