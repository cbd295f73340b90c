// A log_mux reads the output pipes of all workers and hands whole, prefixed lines to the writer,
// and bytes to the log files, as the route of each says.
//
// A source without a prefix (one worker alone) is passed through as it comes: a progress bar looks
// as without ddprun. With one, a line that has no end yet is shown a moment later, and of progress
// bars what a person can follow, in the files too: see line_splitter and bar_thinner. Where the
// writer's queue of a stream is full, or that of a log file, the pipes that lead to it are not
// read: the workers wait in write(), as they would on a terminal.
//
// Those that wait are served in turn, one buffer each: a worker that floods holds up the others no
// longer than its turn takes.
//
// A worker that has ended waits for nobody, and what it said last is the reason for its end: its
// pipes are read at once, into the writer's reserve. That costs what the pipes hold, 64 KiB each.
// Lines for which the reserve has no room either are counted, and their tap sees them.
//
// Thread rule: the main thread; `ended` is called on the executor, never from inside a call.
// Memory: one shared buffer, and per source a partial line of at most `output_line_bytes_max`, and
// as much for a bar's state in its file.
#pragma once

#include "launcher/log/bar_thinner.hpp"
#include "launcher/log/line_splitter.hpp"
#include "launcher/log/log_files.hpp"
#include "launcher/log/log_route.hpp"
#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/output_loss.hpp"
#include "rendezvous/log/writer.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <unordered_map>
#include <vector>

namespace ddprun::launcher {

inline constexpr std::size_t output_line_bytes_max = 64 * 1024;

class log_mux {
 public:
  struct source {
    unique_fd pipe;  // read end
    log_route route;
    log::output_stream to = log::output_stream::output;
    std::function<void(std::string_view)> tap;  // sees the raw bytes; may be empty
    // The pipe is at its end, and everything handed on but for what is lost.
    std::function<void(const log::output_loss&)> ended;
  };
  using source_id = std::uint64_t;

  // Both must outlive it; their room_handlers are taken.
  log_mux(boost::asio::any_io_executor executor, log::writer& out, log_files& files);
  ~log_mux();
  log_mux(const log_mux&) = delete;
  log_mux& operator=(const log_mux&) = delete;

  source_id add(source from);

  // The worker at the other end has ended: the source is read on whether or not there is room.
  void hurry(source_id id);

  // The caller no longer waits for this source: what is in the pipe now is handed on as after
  // hurry, and it is closed, whoever else holds the other end. `ended` is not called.
  log::output_loss release(source_id id);

  // Where the source is a pty.
  void resize(source_id id, terminal_size size) const;

  // True while the source waits for the writer, or its file.
  bool waits(source_id id) const;
  // For how long it has waited so far, all in all.
  std::chrono::steady_clock::duration waited(source_id id) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct entry;

  using shared_entry = std::shared_ptr<entry>;

  std::deque<shared_entry>& line_of(const entry& from);
  shared_entry find(source_id id) const;
  void arm(const shared_entry& from);
  void on_readable(const shared_entry& from);
  void go_on(const shared_entry& from);
  void take_piece(entry& from, const line_splitter::piece& piece);
  void take_line(const entry& from, std::string_view line);
  void take_turn(const shared_entry& from);
  void leave_line(const shared_entry& from);
  ssize_t read(entry& from, std::size_t bytes_max);
  void hand_on(entry& from, std::string_view bytes);
  void push(entry& from, const log::line_part& part);
  void push_lines(entry& from);
  void push_to_file(entry& from, std::string_view bytes);
  void watch_open(const shared_entry& from);
  void arm_timer();
  void hand_on_open();
  void close(entry& from);
  void resume(log::output_stream stream);
  void resume(log_files::file_id file);

  boost::asio::any_io_executor executor_;
  log::writer& writer_;
  log_files& files_;
  std::vector<char> buffer_;
  std::string batch_;    // the prefixed lines of one read
  std::string matches_;  // those of them that are written once more
  source_id last_id_ = 0;
  std::unordered_map<source_id, shared_entry> entries_;
  std::deque<shared_entry> lines_[2];  // per stream: those that wait for it, the first in front
  std::vector<shared_entry> open_;     // those with something that is shown a moment later
  boost::asio::steady_timer timer_;    // for the first of them
  std::optional<line_splitter::time_point> armed_for_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
