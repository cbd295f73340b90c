// A writer puts bytes on standard output and standard error from a thread of its own: for an agent
// its workers' output and its own words, for a daemon its log.
//
// Both may be shared with the person's shell, so they are never made non-blocking: a reader that
// stops (less, Ctrl-S) would stop the process, its heartbeats too. The thread asks the system for
// room and then writes at most PIPE_BUF bytes, ending at a line where it can: lines of several
// agents that write to one pipe stay whole, and a blocked standard output does not hold up standard
// error.
//
// Memory is bounded: push() says when a stream's queue is full, and whoever reads the workers'
// pipes then pauses until room_handler is called. Nothing that was pushed is dropped, unless the
// stream is closed (EPIPE): then one line on the other says so, and all further bytes for it are
// forgotten. Words of our own are refused beyond twice the queue, and counted: once there is room,
// one line says in their place how many were left out.
//
// Thread rule: push, say and has_room from any thread; the rest from the owner. room_handler is
// called by the writer's thread: post from it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {

enum class output_stream { output = 0, errors = 1 };

class writer {
 public:
  struct options {
    int output_fd = 1;  // neither is owned
    int errors_fd = 2;
    std::size_t queue_bytes = 256 * 1024;  // per stream
    std::string name = "ddprun";           // in front of the writer's own lines
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
  bool push(output_stream stream, std::string_view bytes);
  bool has_room(output_stream stream) const;

  // Our own words, to standard error: never refused while the queue has not twice its size.
  bool say(std::string_view line);

  // Whether everything pushed so far is written (or its stream closed). Waits for it, at most
  // `limit`, and ends the thread: the descriptors may be closed then. Only a thread that is stuck
  // in write(2) itself is left behind.
  bool finish(std::chrono::milliseconds limit);

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

}  // namespace ddprun
