// An output_channel is a writer's state of one of its two streams: what is queued, what is being
// written, and what was dropped. Internal to the writer.
//
// A stream that cannot be written for now (a full disk, a quota) keeps its queue and is tried
// again; what arrives while the queue is full is dropped, and a line at that position says how
// much. Other streams do not wait for it.
//
// Thread rule: the first half is used under the writer's mutex, the second by its thread only.
// Memory: see writer.hpp.
#pragma once

#include "rendezvous/log/open_line.hpp"
#include "rendezvous/log/output_loss.hpp"

#include <climits>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::log {

struct output_channel {
  using time_point = std::chrono::steady_clock::time_point;

  enum class outcome {
    taken,   // some bytes, or all
    later,   // nothing was written, and nothing is wrong
    broken,  // an error that may pass: try again at `retry_at`
    closed,  // an error that does not pass
  };

  // Does not own the descriptor.
  void open(int descriptor, const char* called);

  // Under the mutex:
  void append(const line_part& part, std::size_t queue_bytes_max);
  // What is lost of a part that is to be dropped. If the text of a line was taken, its newline is
  // taken, too: that line is not lost.
  std::string_view keep_newline(const line_part& part);
  // Appends whole lines, regardless of the limit.
  void append_lines(std::string_view lines) { line.append_lines(queue, lines); }
  // Moves the queue to `writing`, once everything there is written. `owner` is the prefix of the
  // lines about what is missing.
  void collect(const std::string& owner);
  std::size_t held_bytes() const { return queue.size() + writing_bytes; }

  // By the thread only:
  bool pending() const { return written < writing.size(); }
  bool idle() const { return queue.empty() && !pending(); }  // requires the mutex
  outcome write_some();
  // Returns what can no longer be written, and drops it. Requires the mutex as well.
  output_loss give_up();

  int fd = -1;
  const char* name = "";
  std::size_t chunk_bytes = PIPE_BUF;
  bool is_terminal = false;

  std::string queue;
  open_line line;                 // the end of all text that was accepted
  std::size_t own_bytes = 0;      // bytes of our own messages in the queue
  std::size_t writing_bytes = 0;  // size of `writing` while any of it is unwritten
  std::uint64_t left_out = 0;     // lines refused since `queue` was last taken; reported at its end
  output_loss dropped;            // the same, while the stream was broken
  output_loss overrun;            // the same, because it is written too slowly
  bool closed = false;
  bool broken = false;
  bool told_full = false;

  std::string writing;
  std::size_t written = 0;
  int error = 0;  // errno of the last write that failed
  time_point retry_at{};
};

}  // namespace ddprun::log
