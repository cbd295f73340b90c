// A log_mux reads the output pipes of all workers, and passes complete, prefixed lines to the
// writer and bytes to the log files, as each source's route says.
//
// The output of a source without a prefix (a single worker) is passed through unchanged, so a
// progress bar looks as it does without ddprun. With a prefix, an incomplete line is shown after a
// moment, and of progress bars only the states that a person can follow; so in files, too (see
// line_splitter and bar_thinner). While the queue of the writer or of a log file is full, the pipes
// that lead to it are not read: the workers block in write(), as on a slow terminal.
//
// Waiting sources take turns, one buffer each, so a worker that floods delays the others by no more
// than its turn.
//
// A worker that has ended must not wait, and its last output is the reason why it ended: its pipes
// are read at once, into the writer's reserve. This costs what the pipes hold, 64 KiB each. Lines
// that do not fit into the reserve are counted; their tap still sees them.
//
// Thread rule: the main thread; `ended` is called from the executor, never from inside a call.
// Memory: one shared buffer, and per source a partial line of at most `output_line_bytes_max`, and
// as much for the state of a progress bar in its file.
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
    // The pipe has ended, and everything was passed on, except what was lost.
    std::function<void(const log::output_loss&)> ended;
  };
  using source_id = std::uint64_t;

  // Both must outlive it; it sets their room_handlers.
  log_mux(boost::asio::any_io_executor executor, log::writer& out, log_files& files);
  ~log_mux();
  log_mux(const log_mux&) = delete;
  log_mux& operator=(const log_mux&) = delete;

  source_id add(source from);

  // The worker has ended: the source is read even if there is no room.
  void hurry(source_id id);

  // Stops reading a source: what is in the pipe is passed on as after hurry, and the pipe is
  // closed, even if another process holds its other end. `ended` is not called.
  log::output_loss release(source_id id);

  // For a source that is a pty.
  void resize(source_id id, terminal_size size) const;

  // True while the source waits for room in the writer or its file.
  bool waits(source_id id) const;
  // How long it has waited so far, in total.
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
  std::string matches_;  // those of them that also go to the file of matches
  source_id last_id_ = 0;
  std::unordered_map<source_id, shared_entry> entries_;
  std::deque<shared_entry> lines_[2];  // per stream, the sources that wait for it, in order
  std::vector<shared_entry> open_;     // sources with something to show later
  boost::asio::steady_timer timer_;    // for the earliest of them
  std::optional<line_splitter::time_point> armed_for_;
  lifetime alive_;
};

}  // namespace ddprun::launcher
