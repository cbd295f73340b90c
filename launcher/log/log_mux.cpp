#include "launcher/log/log_mux.hpp"

#include "launcher/log/library_frames.hpp"
#include "rendezvous/base/terminal_escapes.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace asio = boost::asio;

namespace ddprun::launcher {

using clock = std::chrono::steady_clock;
using kind = log::line_part::kind;

namespace {

constexpr int pty_bytes_max = 64 * 1024;

}  // namespace

struct log_mux::entry : std::enable_shared_from_this<log_mux::entry> {
  entry(const asio::any_io_executor& executor, source_id number, source values)
      : id(number), pipe(executor, values.pipe.release()), from(std::move(values)) {}

  source_id id;
  asio::posix::stream_descriptor pipe;
  source from;
  std::unique_ptr<line_splitter> splitter;  // none: bytes are passed through
  std::string shown_prefix;
  bar_thinner thinner;  // for the file
  library_frames frames;
  bool is_watched = false;
  log_files::file_id file = 0;
  log_files::file_id matches = 0;
  bool hurried = false;
  bool waits_for_file = false;
  log::output_loss lost;
  std::optional<clock::time_point> waiting_since;  // for the writer, or the file
  clock::duration waited{};                        // before waiting_since

  // A line that the worker has coloured itself stays as it is.
  bool is_dim(const line_splitter::piece& piece) {
    if (!from.route.prefix_color || piece.line.empty()) return false;
    const bool is_whole = piece.text.size() == piece.line.size();
    return frames.take(piece.line) && is_whole && piece.line.find('\x1b') == piece.line.npos;
  }

  bool has_lines_shown() const { return from.route.is_shown && !from.route.prefix.empty(); }

  // True also at the end of the pipe.
  bool is_readable() {
    pollfd at{pipe.native_handle(), POLLIN, 0};
    return ::poll(&at, 1, 0) != 0;
  }

  // When to show what is held back.
  std::optional<clock::time_point> due() const {
    const auto next = splitter ? splitter->due() : std::nullopt;
    const auto of_file = thinner.due();
    if (!next || !of_file) return next ? next : of_file;
    return std::min(*next, *of_file);
  }
};

log_mux::log_mux(asio::any_io_executor executor, log::writer& out, log_files& files)
    : executor_(std::move(executor)),
      writer_(out),
      files_(files),
      buffer_(64 * 1024),
      timer_(executor_) {
  // Called on the writer's thread, so it has to post.
  writer_.on_room([executor = executor_, alive = alive_.watch(), this](log::output_stream stream) {
    asio::post(executor, while_alive(alive, [this, stream] { resume(stream); }));
  });
  files_.on_room([executor = executor_, alive = alive_.watch(), this](log_files::file_id file) {
    asio::post(executor, while_alive(alive, [this, file] { resume(file); }));
  });
}

log_mux::~log_mux() = default;

log_mux::source_id log_mux::add(source values) {
  // O_NONBLOCK belongs to our end of the pipe; the worker does not see it.
  set_nonblocking(values.pipe.get());
  const auto from = std::make_shared<entry>(executor_, ++last_id_, std::move(values));
  const log_route& route = from->from.route;
  if (!route.file.empty()) from->file = files_.open(route.file);
  if (!route.needles.empty()) from->matches = files_.open(route.matches_file);
  if (from->has_lines_shown() || from->matches != 0) {
    from->splitter = std::make_unique<line_splitter>(
        output_line_bytes_max,
        [this, raw = from.get()](const auto& piece) { take_piece(*raw, piece); });
    const auto& tint = route.prefix_color;
    from->shown_prefix = tint ? in_color(*tint, route.prefix) : route.prefix;
  }
  entries_.emplace(from->id, from);
  arm(from);
  return from->id;
}

void log_mux::take_piece(entry& from, const line_splitter::piece& piece) {
  if (from.matches != 0 && !piece.line.empty()) take_line(from, piece.line);
  if (!from.has_lines_shown()) return;
  // Cursor movements would draw over the lines of other workers.
  std::string drawn;
  const bool is_drawn =
      from.from.route.terminal && piece.text.find('\x1b') != std::string_view::npos;
  if (is_drawn) drawn = without_cursor_moves(piece.text);
  std::string_view text = is_drawn ? drawn : piece.text;
  if (from.is_dim(piece)) text = drawn = in_dim(text);
  // A whole line waits for the others of this read; anything else must keep its place among them.
  if (piece.how == kind::opens && !piece.line.empty()) {
    batch_.append(from.shown_prefix).append(text);
    return;
  }
  push_lines(from);
  push(from, {text, piece.how, from.id, from.shown_prefix, piece.is_state});
}

void log_mux::take_line(const entry& from, std::string_view line) {
  const log_route& route = from.from.route;
  const bool is_match = std::any_of(
      route.needles.begin(), route.needles.end(),
      [&](const std::string& needle) { return line.find(needle) != std::string_view::npos; });
  if (is_match) matches_.append(route.prefix).append(line);
}

std::deque<log_mux::shared_entry>& log_mux::line_of(const entry& from) {
  return lines_[static_cast<std::size_t>(from.from.to)];
}

log_mux::shared_entry log_mux::find(source_id id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second;
}

void log_mux::arm(const shared_entry& from) {
  from->pipe.async_wait(
      asio::posix::stream_descriptor::wait_read,
      while_alive(from->weak_from_this(), [this, &entry = *from](error_code error) {
        if (!error) on_readable(entry.shared_from_this());
      }));
}

void log_mux::on_readable(const shared_entry& from) {
  auto& queue = line_of(*from);
  const bool is_shown = from->from.route.is_shown;
  // Even if there is room, a source must not overtake those that wait for it.
  if (from->hurried || !is_shown || (queue.empty() && writer_.has_room(from->from.to))) {
    return go_on(from);
  }
  from->waiting_since = clock::now();
  queue.push_back(from);
}

// The writer has room, or the source must not wait for it.
void log_mux::go_on(const shared_entry& from) {
  if (from->hurried || from->file == 0 || files_.has_room(from->file)) return take_turn(from);
  from->waiting_since = clock::now();
  from->waits_for_file = true;
}

void log_mux::take_turn(const shared_entry& from) {
  if (read(*from, buffer_.size()) != 0) return arm(from);
  close(*from);
  // Called last, because it may destroy us.
  const auto ended = std::move(from->from.ended);
  if (ended) ended(from->lost);
}

void log_mux::leave_line(const shared_entry& from) {
  if (!from->waiting_since) return;
  from->waited += clock::now() - *from->waiting_since;
  from->waiting_since.reset();
  if (!std::exchange(from->waits_for_file, false)) std::erase(line_of(*from), from);
}

// Returns 0 at the end of the pipe, less than 0 if there was nothing to read.
ssize_t log_mux::read(entry& from, std::size_t bytes_max) {
  const auto count = ::read(from.pipe.native_handle(), buffer_.data(), bytes_max);
  if (count > 0) hand_on(from, {buffer_.data(), static_cast<std::size_t>(count)});
  return count < 0 && errno != EAGAIN && errno != EINTR ? 0 : count;
}

void log_mux::hand_on(entry& from, std::string_view bytes) {
  // The tap comes first: it sees the last output of a worker even if the writer has no room for it.
  if (from.from.tap) from.from.tap(bytes);
  const auto now = clock::now();
  if (from.file != 0) push_to_file(from, from.thinner.feed(bytes, now));
  if (from.splitter) {
    from.splitter->feed(bytes, now);
    push_lines(from);
  }
  if (from.from.route.is_shown && from.from.route.prefix.empty()) {
    push(from, {.text = bytes, .whose = log::passed_through});
  }
  watch_open(from.shared_from_this());
}

void log_mux::push(entry& from, const log::line_part& part) {
  if (!from.hurried) {
    writer_.push(from.from.to, part);
  } else if (!writer_.push_late(from.from.to, part)) {
    from.lost.add(part.text);
  }
}

void log_mux::push_to_file(entry& from, std::string_view bytes) {
  if (bytes.empty()) return;
  if (!from.hurried) {
    files_.push(from.file, bytes);
  } else {
    files_.push_late(from.file, bytes);
  }
}

void log_mux::watch_open(const shared_entry& from) {
  if (from->is_watched || !from->due()) return;
  from->is_watched = true;
  open_.push_back(from);
  arm_timer();
}

void log_mux::arm_timer() {
  std::optional<clock::time_point> first;
  for (const shared_entry& one : open_) {
    const auto due = one->due();
    if (due && (!first || *due < *first)) first = due;
  }
  // A timer that fires too early arms itself again.
  if (!first || (armed_for_ && *armed_for_ <= *first)) return;
  armed_for_ = first;
  timer_.expires_at(*first);
  timer_.async_wait(while_alive(alive_.watch(), [this](error_code error) {
    if (error) return;
    armed_for_.reset();
    hand_on_open();
  }));
}

// If the rest of the line is in the pipe already, the worker has not paused: our reader was slow.
// The source is looked at again when more of it was read.
void log_mux::hand_on_open() {
  const auto now = clock::now();
  std::erase_if(open_, [&](const shared_entry& one) {
    if (const auto due = one->thinner.due(); due && *due <= now) {
      push_to_file(*one, one->thinner.take_held());
    }
    const auto due = one->splitter ? one->splitter->due() : std::nullopt;
    const bool is_due = due && *due <= now;
    const bool has_more = is_due && (one->waiting_since || one->is_readable());
    if (is_due && !has_more) one->splitter->hand_on_open();
    one->is_watched = one->due() && !has_more;
    return !one->is_watched;
  });
  arm_timer();
}

// All lines of one read go to the writer in one piece.
void log_mux::push_lines(entry& from) {
  if (!batch_.empty()) push(from, {batch_, kind::begins, from.id});
  if (!matches_.empty()) files_.push_late(from.matches, matches_);
  batch_.clear();
  matches_.clear();
}

void log_mux::close(entry& from) {
  if (from.splitter) {
    from.splitter->finish();
    push_lines(from);
  }
  if (from.file != 0) push_to_file(from, from.thinner.finish());
  files_.close(from.file);
  files_.close(from.matches);
  from.pipe.close();
  entries_.erase(from.id);
}

void log_mux::hurry(source_id id) {
  const auto from = find(id);
  if (!from || std::exchange(from->hurried, true) || !from->waiting_since) return;
  // It waits in a queue, where no read is under way that would see that it is hurried.
  leave_line(from);
  arm(from);
}

log::output_loss log_mux::release(source_id id) {
  const auto from = find(id);
  if (!from) return {};
  leave_line(from);
  from->hurried = true;
  // Only what is in the pipe now: whoever holds its other end may go on writing without an end.
  // A pty does not report how much it holds.
  int left = 2 * pty_bytes_max;
  if (!from->from.route.terminal) ::ioctl(from->pipe.native_handle(), FIONREAD, &left);
  ssize_t count = 1;
  while (left > 0 && count > 0) {
    count = read(*from, std::min(static_cast<std::size_t>(left), buffer_.size()));
    left -= static_cast<int>(count);
  }
  close(*from);
  return from->lost;
}

void log_mux::resize(source_id id, terminal_size size) const {
  if (const auto from = find(id)) resize_terminal(from->pipe.native_handle(), size);
}

bool log_mux::waits(source_id id) const {
  const auto from = find(id);
  return from && from->waiting_since;
}

clock::duration log_mux::waited(source_id id) const {
  const auto from = find(id);
  if (!from) return {};
  return from->waited +
         (from->waiting_since ? clock::now() - *from->waiting_since : clock::duration::zero());
}

void log_mux::resume(log::output_stream stream) {
  auto& queue = lines_[static_cast<std::size_t>(stream)];
  const auto alive = alive_.watch();
  while (!queue.empty() && writer_.has_room(stream)) {
    const auto from = queue.front();
    leave_line(from);
    go_on(from);
    if (alive.expired()) return;  // the handler `ended` has destroyed us
  }
}

void log_mux::resume(log_files::file_id file) {
  for (const auto& [id, from] : entries_) {
    if (from->file != file || !from->waits_for_file) continue;
    const shared_entry next = from;  // its turn may end it, and so remove it from entries_
    leave_line(next);
    return on_readable(next);
  }
}

}  // namespace ddprun::launcher
