#include "launcher/log/log_mux.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sys/ioctl.h>
#include <unistd.h>

namespace asio = boost::asio;

namespace ddprun::launcher {

using clock = std::chrono::steady_clock;

struct log_mux::entry : std::enable_shared_from_this<log_mux::entry> {
  entry(const asio::any_io_executor& executor, source_id number, source values)
      : id(number), pipe(executor, values.pipe.release()), from(std::move(values)) {}

  source_id id;
  asio::posix::stream_descriptor pipe;
  source from;
  std::unique_ptr<line_splitter> splitter;  // none: pass through
  log_files::file_id file = 0;
  log_files::file_id matches = 0;
  bool hurried = false;
  bool waits_for_file = false;
  log::output_loss lost;
  std::optional<clock::time_point> waiting_since;  // for the writer, or the file
  clock::duration waited{};                        // before that
};

log_mux::log_mux(asio::any_io_executor executor, log::writer& out, log_files& files)
    : executor_(std::move(executor)), writer_(out), files_(files), buffer_(64 * 1024) {
  // Called on the writer's thread.
  writer_.on_room([executor = executor_, alive = alive_.watch(), this](log::output_stream stream) {
    asio::post(executor, while_alive(alive, [this, stream] { resume(stream); }));
  });
  files_.on_room([executor = executor_, alive = alive_.watch(), this](log_files::file_id file) {
    asio::post(executor, while_alive(alive, [this, file] { resume(file); }));
  });
}

log_mux::~log_mux() = default;

log_mux::source_id log_mux::add(source values) {
  // The worker holds the other end only: it does not see O_NONBLOCK.
  set_nonblocking(values.pipe.get());
  const auto from = std::make_shared<entry>(executor_, ++last_id_, std::move(values));
  const log_route& route = from->from.route;
  if (!route.file.empty()) from->file = files_.open(route.file);
  if (!route.needles.empty()) from->matches = files_.open(route.matches_file);
  if ((route.is_shown && !route.prefix.empty()) || from->matches != 0) {
    from->splitter = std::make_unique<line_splitter>(
        output_line_bytes_max,
        [this, raw = from.get()](std::string_view line) { take_line(*raw, line); });
  }
  entries_.emplace(from->id, from);
  arm(from);
  return from->id;
}

void log_mux::take_line(const entry& from, std::string_view line) {
  const log_route& route = from.from.route;
  if (route.is_shown && !route.prefix.empty()) batch_.append(route.prefix).append(line);
  if (from.matches == 0) return;
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
  auto& line = line_of(*from);
  const bool is_shown = from->from.route.is_shown;
  if (from->hurried || !is_shown || (line.empty() && writer_.has_room(from->from.to))) {
    return go_on(from);
  }
  from->waiting_since = clock::now();
  line.push_back(from);
}

// The writer has room for it, or need not have.
void log_mux::go_on(const shared_entry& from) {
  if (from->hurried || from->file == 0 || files_.has_room(from->file)) return take_turn(from);
  from->waiting_since = clock::now();
  from->waits_for_file = true;
}

void log_mux::take_turn(const shared_entry& from) {
  if (read(*from, buffer_.size()) != 0) return arm(from);
  close(*from);
  const auto ended = std::move(from->from.ended);
  if (ended) ended(from->lost);
}

void log_mux::leave_line(const shared_entry& from) {
  if (!from->waiting_since) return;
  from->waited += clock::now() - *from->waiting_since;
  from->waiting_since.reset();
  if (!std::exchange(from->waits_for_file, false)) std::erase(line_of(*from), from);
}

// 0: the pipe is at its end; below 0: nothing was there.
ssize_t log_mux::read(entry& from, std::size_t bytes_max) {
  const auto count = ::read(from.pipe.native_handle(), buffer_.data(), bytes_max);
  if (count > 0) hand_on(from, {buffer_.data(), static_cast<std::size_t>(count)});
  return count < 0 && errno != EAGAIN && errno != EINTR ? 0 : count;
}

void log_mux::hand_on(entry& from, std::string_view bytes) {
  if (from.from.tap) from.from.tap(bytes);
  if (from.file != 0 && !from.hurried) files_.push(from.file, bytes);
  if (from.file != 0 && from.hurried) files_.push_late(from.file, bytes);
  if (from.splitter) {
    from.splitter->feed(bytes);
    push_lines(from);
  }
  if (from.from.route.is_shown && from.from.route.prefix.empty()) push(from, bytes);
}

void log_mux::push(entry& from, std::string_view bytes) {
  if (!from.hurried) {
    writer_.push(from.from.to, bytes);
  } else if (!writer_.push_late(from.from.to, bytes)) {
    from.lost.add(bytes);
  }
}

// All lines of one read go to the writer in one piece.
void log_mux::push_lines(entry& from) {
  if (!batch_.empty()) push(from, batch_);
  if (!matches_.empty()) files_.push_late(from.matches, matches_);
  batch_.clear();
  matches_.clear();
}

void log_mux::close(entry& from) {
  if (from.splitter) {
    from.splitter->finish();
    push_lines(from);
  }
  files_.close(from.file);
  files_.close(from.matches);
  from.pipe.close();
  entries_.erase(from.id);
}

void log_mux::hurry(source_id id) {
  const auto from = find(id);
  if (!from || std::exchange(from->hurried, true) || !from->waiting_since) return;
  leave_line(from);
  arm(from);
}

log::output_loss log_mux::release(source_id id) {
  const auto from = find(id);
  if (!from) return {};
  leave_line(from);
  from->hurried = true;
  int left = 0;
  ::ioctl(from->pipe.native_handle(), FIONREAD, &left);
  ssize_t count = 1;
  while (left > 0 && count > 0) {
    count = read(*from, std::min(static_cast<std::size_t>(left), buffer_.size()));
    left -= static_cast<int>(count);
  }
  close(*from);
  return from->lost;
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
  auto& line = lines_[static_cast<std::size_t>(stream)];
  const auto alive = alive_.watch();
  while (!line.empty() && writer_.has_room(stream)) {
    const auto from = line.front();
    leave_line(from);
    go_on(from);
    if (alive.expired()) return;  // a handler of `ended` has destroyed us
  }
}

void log_mux::resume(log_files::file_id file) {
  for (const auto& [id, from] : entries_) {
    if (from->file != file || !from->waits_for_file) continue;
    const shared_entry next = from;
    leave_line(next);
    return on_readable(next);
  }
}

}  // namespace ddprun::launcher
