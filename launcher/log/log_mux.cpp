#include "launcher/log/log_mux.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <sys/ioctl.h>
#include <unistd.h>

namespace asio = boost::asio;

namespace ddprun {

struct log_mux::entry {
  entry(const asio::any_io_executor& executor, source_id number, source values)
      : id(number), pipe(executor, values.pipe.release()), from(std::move(values)) {}

  source_id id;
  asio::posix::stream_descriptor pipe;
  source from;
  std::unique_ptr<line_splitter> splitter;  // none: pass through
  bool waiting = false;                     // for the writer
  bool released = false;
  std::size_t left = 0;  // of a released one: what was in the pipe then and was not read yet
};

log_mux::log_mux(asio::any_io_executor executor, writer& out)
    : executor_(std::move(executor)),
      writer_(out),
      buffer_(64 * 1024),
      self_(std::make_shared<log_mux*>(this)) {
  writer_.on_room([executor = executor_, weak = std::weak_ptr(self_)](output_stream stream) {
    asio::post(executor, [weak, stream] {
      if (const auto self = weak.lock()) (*self)->resume(stream);
    });
  });
}

log_mux::~log_mux() = default;

log_mux::source_id log_mux::add(source values) {
  // The worker holds the other end only: it does not see O_NONBLOCK.
  set_nonblocking(values.pipe.get());
  const auto from = std::make_shared<entry>(executor_, ++last_id_, std::move(values));
  if (!from->from.prefix.empty()) {
    from->splitter =
        std::make_unique<line_splitter>(output_line_bytes_max, [this, raw = from.get()](auto line) {
          batch_ += raw->from.prefix;
          batch_ += line;
        });
  }
  entries_.emplace(from->id, from);
  arm(from);
  return from->id;
}

void log_mux::arm(const std::shared_ptr<entry>& from) {
  from->pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                        [this, weak = std::weak_ptr(from)](error_code error) {
                          const auto readable = weak.lock();
                          if (!error && readable) read(readable);
                        });
}

void log_mux::read(const std::shared_ptr<entry>& from) {
  do {
    if (!writer_.has_room(from->from.to)) {
      from->waiting = true;
      return;
    }
    const auto bytes_max = from->released ? std::min(from->left, buffer_.size()) : buffer_.size();
    const auto count =
        bytes_max == 0 ? 0 : ::read(from->pipe.native_handle(), buffer_.data(), bytes_max);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) return end(from);
    if (from->released) from->left -= static_cast<std::size_t>(count);
    hand_on(*from, {buffer_.data(), static_cast<std::size_t>(count)});
  } while (from->released);
  arm(from);
}

void log_mux::hand_on(entry& from, std::string_view bytes) {
  if (from.from.tap) from.from.tap(bytes);
  if (from.splitter) {
    from.splitter->feed(bytes);
    push_batch(from);
  } else {
    writer_.push(from.from.to, bytes);
  }
}

// All lines of one read go to the writer in one piece.
void log_mux::push_batch(const entry& from) {
  if (!batch_.empty()) writer_.push(from.from.to, batch_);
  batch_.clear();
}

void log_mux::end(const std::shared_ptr<entry>& from) {
  if (from->splitter) {
    from->splitter->finish();
    push_batch(*from);
  }
  from->pipe.close();
  entries_.erase(from->id);
  const auto ended = std::move(from->from.ended);
  if (ended) ended();
}

void log_mux::release(source_id id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const auto from = found->second;
  from->from.ended = nullptr;
  from->from.tap = nullptr;
  from->released = true;
  int bytes = 0;
  if (::ioctl(from->pipe.native_handle(), FIONREAD, &bytes) == 0) {
    from->left = static_cast<std::size_t>(bytes);
  }
  if (from->waiting) return;
  from->pipe.cancel();
  read(from);
}

bool log_mux::waits(source_id id) const {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second->waiting;
}

void log_mux::resume(output_stream stream) {
  std::vector<std::shared_ptr<entry>> ready;
  for (const auto& [id, from] : entries_) {
    if (from->waiting && from->from.to == stream) ready.push_back(from);
  }
  const std::weak_ptr alive = self_;
  for (const auto& from : ready) {
    if (alive.expired()) return;  // a handler of `ended` has destroyed us
    from->waiting = false;
    read(from);
  }
}

}  // namespace ddprun
