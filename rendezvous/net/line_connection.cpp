#include "rendezvous/net/line_connection.hpp"

#include <boost/asio/post.hpp>

#include <array>
#include <new>
#include <utility>

namespace ddprun::net {
namespace {

// How often one connection is read in a turn, so that a peer that sends without pause does not
// starve the others.
constexpr int reads_per_turn_max = 4;

std::string text_of(const tcp::endpoint& endpoint, const error_code& error) {
  return error ? std::string() : address_text(endpoint.address());
}

bool is_retry(const error_code& error) {
  return error == asio::error::would_block || error == asio::error::try_again ||
         error == asio::error::interrupted;
}

}  // namespace

line_connection::line_connection(tcp::socket socket, line_handlers handlers, duration stall_limit)
    : socket_(std::move(socket)), handlers_(std::move(handlers)), stall_limit_(stall_limit) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
}

void line_connection::start() {
  wait_to_read();
}

void line_connection::wait_to_read() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (self->phase_ == phase::closed) return;
    self->guarded([&] { error ? self->end(error) : self->read_some(); });
  });
}

void line_connection::read_some() {
  std::array<char, 16 * 1024> chunk;
  for (int turn = 0; turn < reads_per_turn_max; ++turn) {
    error_code error;
    const std::size_t size = socket_.read_some(asio::buffer(chunk), error);
    if (is_retry(error)) break;
    // EOF is not an error of the system's: give it our own name, so that owners see one code.
    if (error == asio::error::eof) error = errc::connection_closed;
    if (error) return end(error);
    if (phase_ == phase::open) {
      reader_.append({chunk.data(), size});
      if (!give_lines()) return;
    }
    // `on_line` may have closed this connection, so look at the phase again.
    if (phase_ == phase::open && handlers_.on_unfinished) {
      handlers_.on_unfinished(reader_.memory());
      if (phase_ == phase::closed) return;
    }
    // A short read has emptied the socket: another one would only say "try again".
    if (size < chunk.size()) break;
  }
  wait_to_read();
}

// Returns false once nothing more is to be read.
bool line_connection::give_lines() {
  while (phase_ == phase::open) {
    const auto line = reader_.next();
    if (!line) break;
    handlers_.on_line(*line);
  }
  // Checked last: the lines before the one that is too long are valid.
  if (phase_ == phase::open && reader_.too_long()) {
    end(errc::message_too_long);
    return false;
  }
  return phase_ != phase::closed;
}

void line_connection::send(std::size_t kind, shared_bytes line) {
  if (phase_ != phase::open) return;
  try {
    queue_.push(kind, std::move(line));
    schedule_write();
  } catch (const std::bad_alloc&) {
    cut();  // cut, so that the peer does not go on as if it had missed nothing
  }
}

// Runs one step of the connection. If memory runs out, the connection ends: otherwise it would stay
// open for ever with no operation pending.
template <typename Step>
void line_connection::guarded(Step step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    end(asio::error::no_memory);
    throw;
  }
}

void line_connection::cut() {
  sent_fin_ = true;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
}

void line_connection::schedule_write() {
  if (write_scheduled_ || write_waits_) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->write_scheduled_ = false;
    self->guarded([&] { self->write_some(); });
  });
  write_scheduled_ = true;
}

void line_connection::write_some() {
  while (phase_ != phase::closed && !queue_.empty()) {
    error_code error;
    const std::size_t size = socket_.write_some(queue_.buffers(), error);
    if (is_retry(error)) return wait_to_write();
    if (error) return end(error);
    queue_.consume(size);
    // The peer takes bytes, so the stall limit starts again.
    if (phase_ == phase::open && timer_) timer_->cancel();
  }
  // FIN is sent once, and only after the last queued byte.
  if (phase_ != phase::finishing || sent_fin_) return;
  sent_fin_ = true;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  if (peer_closed_) finished();
}

void line_connection::wait_to_write() {
  write_waits_ = true;
  if (phase_ == phase::open) arm_stall_timer();
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
    self->write_waits_ = false;
    if (self->phase_ == phase::closed) return;
    self->guarded([&] { error ? self->end(error) : self->write_some(); });
  });
}

void line_connection::arm_stall_timer() {
  if (!timer_) timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  timer_->expires_after(stall_limit_);
  timer_->async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->phase_ == phase::open && self->write_waits_) {
      self->end(errc::peer_does_not_read);
    }
  });
}

void line_connection::finish(duration limit, std::function<void()> done) {
  if (phase_ != phase::open) return;
  phase_ = phase::finishing;
  done_ = std::move(done);
  try {
    await_end(limit);
  } catch (const std::bad_alloc&) {
    cut();
  }
}

void line_connection::await_end(duration limit) {
  if (!timer_) timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  timer_->expires_after(limit);
  timer_->async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->phase_ == phase::finishing) self->finished();
  });
  schedule_write();
}

void line_connection::finished() {
  const auto done = std::move(done_);
  close();
  if (done) done();
}

void line_connection::close() {
  if (phase_ == phase::closed) return;
  phase_ = phase::closed;
  error_code ignored;
  socket_.close(ignored);
  if (timer_) timer_->cancel();
  queue_.clear();
  done_ = nullptr;
}

void line_connection::break_off() {
  write_some();
  close();
}

void line_connection::set_keep_alive(const keep_alive& limits) {
  net::set_keep_alive(socket_.native_handle(), limits);
}

// Called when the peer or the connection has ended.
void line_connection::end(error_code error) {
  if (phase_ == phase::finishing) {
    // A peer that has sent FIN can still read what we have queued, so finish sending first.
    peer_closed_ = true;
    if (error != errc::connection_closed || sent_fin_) finished();
    return;
  }
  if (phase_ != phase::open) return;
  if (error == errc::connection_closed) {
    // The peer will send nothing more, but what we have queued may still reach it.
    peer_closed_ = true;
    write_some();
  }
  // A failed write has ended it already, and reported that.
  if (phase_ != phase::open) return;
  close();
  if (handlers_.on_end) handlers_.on_end(error);
}

std::string line_connection::peer_address() const {
  error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  return text_of(endpoint, error);
}

std::string line_connection::local_address() const {
  error_code error;
  const auto endpoint = socket_.local_endpoint(error);
  return text_of(endpoint, error);
}

}  // namespace ddprun::net
