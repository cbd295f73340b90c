#include "launcher/hosts/ssh/host_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace ddprun::launcher::ssh {
namespace {

// Above the agent's own limit, so that a line that the agent has cut is not cut again.
constexpr std::size_t stream_line_bytes_max = 1024 * 1024;
constexpr std::size_t buffer_bytes = 64 * 1024;

std::string_view without_newline(std::string_view line) {
  return line.substr(0, line.size() - (line.ends_with('\n') ? 1 : 0));
}

}  // namespace

host_stream::host_stream(boost::asio::any_io_executor executor, log::writer& out,
                         log::output_stream to, std::uint64_t id, std::string magic, unique_fd pipe,
                         handlers told)
    : writer_(out),
      to_(to),
      id_(id),
      magic_(std::move(magic)),
      pipe_(executor),
      timer_(executor),
      told_(std::move(told)),
      splitter_(stream_line_bytes_max, [this](const auto& piece) { take_piece(piece); }),
      buffer_(buffer_bytes) {
  set_nonblocking(pipe.get());
  pipe_.assign(pipe.release());
  arm();
}

void host_stream::close() {
  alive_.end();
  timer_.cancel();
  boost::system::error_code ignored;
  pipe_.close(ignored);
}

bool host_stream::is_idle() {
  if (!pipe_.is_open()) return true;
  if (waits_for_room_) return false;
  pollfd at{pipe_.native_handle(), POLLIN, 0};
  return ::poll(&at, 1, 0) == 0;
}

bool host_stream::give_up_if_idle() {
  if (!pipe_.is_open() || !is_idle()) return false;
  splitter_.finish();
  close();
  return true;
}

void host_stream::arm() {
  pipe_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   while_alive(alive_.watch(), [this](boost::system::error_code error) {
                     if (!error) read();
                   }));
}

void host_stream::resume() {
  if (std::exchange(waits_for_room_, false)) read();
}

void host_stream::read() {
  // Reading goes on in `resume`.
  if (!writer_.has_room(to_)) {
    waits_for_room_ = true;
    return;
  }
  const ssize_t count = ::read(pipe_.native_handle(), buffer_.data(), buffer_.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return arm();
  if (count <= 0) {
    splitter_.finish();
    const auto ended = std::move(told_.ended);
    close();
    return ended();
  }
  const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(count));
  bytes_read_ += bytes.size();
  const std::size_t newline = bytes.rfind('\n');
  if (newline != std::string_view::npos) open_beginning_.clear();
  const std::string_view open =
      newline == std::string_view::npos ? bytes : bytes.substr(newline + 1);
  if (open_beginning_.size() < magic_.size())
    open_beginning_ += open.substr(0, magic_.size() - open_beginning_.size());
  const auto alive = alive_.watch();
  splitter_.feed(bytes, std::chrono::steady_clock::now());
  if (alive.expired()) return;
  watch_open();
  arm();
}

void host_stream::take_piece(const line_splitter::piece& piece) {
  const bool is_whole = piece.how == log::line_part::kind::opens && !piece.line.empty();
  if (is_whole && told_.take(without_newline(piece.line))) return;
  if (passes_) writer_.push(to_, {piece.text, piece.how, id_, {}, piece.is_state});
}

// A long line of ours may arrive in several pieces with pauses between them, and must not be shown
// as output meanwhile.
bool host_stream::may_be_ours() const {
  const std::size_t both = std::min(open_beginning_.size(), magic_.size());
  return open_beginning_.starts_with('{') ||
         std::string_view(open_beginning_).substr(0, both) == magic_.substr(0, both);
}

// Shows an unfinished line, such as a prompt or a progress bar, after a moment.
void host_stream::watch_open() {
  const auto due = splitter_.due();
  if (!due || !passes_ || may_be_ours()) return;
  timer_.expires_at(*due);
  timer_.async_wait(while_alive(alive_.watch(), [this](boost::system::error_code error) {
    if (error || may_be_ours()) return;
    const auto now_due = splitter_.due();
    if (!now_due) return;
    if (*now_due > std::chrono::steady_clock::now()) return watch_open();
    splitter_.hand_on_open();
    watch_open();
  }));
}

}  // namespace ddprun::launcher::ssh
