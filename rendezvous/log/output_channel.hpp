// An output_channel is what a writer keeps of one of its two streams: what was queued, what is
// being written, and what was left out. Internal to the writer.
//
// One that cannot be written for now (a full disk, a quota) keeps its queue and tries again; what
// comes while the queue is full is dropped, and counted in a line at its place. It holds up nobody.
//
// Thread rule: the first half under the writer's mutex, the second is the thread's own. Memory: see
// writer.hpp.
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
    taken,   // some of it, or all
    later,   // nothing, and nothing is wrong
    broken,  // an error that may pass: try again at `retry_at`
    closed,  // an error that does not pass
  };

  // Does not own it.
  void open(int descriptor, const char* called);

  // Under the mutex.
  void append(const line_part& part, std::size_t queue_bytes_max);
  // Of a part that is to be dropped, what is lost. The newline of a line whose text was taken is
  // taken, too: that line is not lost.
  std::string_view keep_newline(const line_part& part);
  // Whole lines, whatever is queued.
  void append_lines(std::string_view lines) { line.append_lines(queue, lines); }
  // Takes over what is queued, once all of the last is written. `owner` begins the notes about what
  // is missing.
  void collect(const std::string& owner);
  std::size_t held_bytes() const { return queue.size() + writing_bytes; }

  // The thread's own.
  bool pending() const { return written < writing.size(); }
  bool idle() const { return queue.empty() && !pending(); }  // with the mutex
  outcome write_some();
  // What will never be written any more. The mutex is held too; afterwards there is nothing left.
  output_loss give_up();

  int fd = -1;
  const char* name = "";
  std::size_t chunk_bytes = PIPE_BUF;
  bool is_terminal = false;

  std::string queue;
  open_line line;                 // at the end of all that was taken
  std::size_t own_bytes = 0;      // in the queue: words of our own
  std::size_t writing_bytes = 0;  // size of `writing` while any of it is unwritten
  std::uint64_t left_out = 0;     // refused since `queue` was last taken: they belong at its end
  output_loss dropped;            // likewise, while the stream was broken
  output_loss overrun;            // likewise, as it is written too slowly
  bool closed = false;
  bool broken = false;
  bool told_full = false;

  std::string writing;
  std::size_t written = 0;
  int error = 0;  // of the last write that failed
  time_point retry_at{};
};

}  // namespace ddprun::log
