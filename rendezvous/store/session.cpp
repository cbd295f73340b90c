#include "rendezvous/store/session.hpp"

#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace ddprun::store {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Replies are sent in at most so many pieces by one system call.
constexpr std::size_t pieces_max = 16;

bool is_orderly(const error_code& reason) {
  return !reason || reason == asio::error::eof || reason == asio::error::operation_aborted ||
         reason == asio::error::connection_reset || reason == asio::error::broken_pipe;
}

// A stranger is not worth a warning: any port is probed by somebody.
note_level level_of(const error_code& reason) {
  const bool stranger = reason == errc::wrong_protocol || reason == errc::connection_silent;
  return stranger ? note_level::info : note_level::warning;
}

std::string peer_of(const tcp::socket& socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return "a client that is gone";
  asio::ip::address address = peer.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address.to_string() + " port " + std::to_string(peer.port());
}

}  // namespace

void start_session(tcp::socket socket, std::shared_ptr<keyspace> space, std::string_view bytes) {
  std::make_shared<session>(std::move(socket), std::move(space))->start(bytes);
}

session::session(tcp::socket socket, std::shared_ptr<keyspace> space)
    : socket_(std::move(socket)), space_(std::move(space)), conversation_(space_->values()) {
  space_->add(*this, conversation_->id());
}

// Destroyed with its io_context, a session has not ended yet; nobody is told then.
session::~session() {
  if (!conversation_) return;
  space_->remove(conversation_->id());
  if (capacity_ > read_buffer_bytes) space_->release_unfinished(capacity_);
}

void session::start(std::string_view bytes) {
  error_code error;
  socket_.non_blocking(true, error);
  if (error) return end(error);
  socket_.set_option(tcp::no_delay(true), error);  // not vital; a dead peer is seen at the read
  resize(read_buffer_bytes);
  if (space_->finishing()) finish();
  if (!conversation_) return;
  // Bytes that others have read are few, for they only looked for the protocol.
  if (bytes.size() > capacity_) {
    if (bytes.size() > protocol::tcpstore::request_bytes_max) return end(errc::message_too_long);
    if (!space_->charge_unfinished(bytes.size())) return end(errc::limit_reached);
    resize(bytes.size());
  }
  std::copy(bytes.begin(), bytes.end(), buffer_.get());
  end_ = bytes.size();
  if (bytes.empty()) {
    arm(space_->options().validate_limit, errc::connection_silent);
    return read();
  }
  process();
  if (conversation_ && !conversation_->validated()) {
    arm(space_->options().validate_limit, errc::connection_silent);
  }
}

void session::read() {
  reading_ = true;
  socket_.async_read_some(asio::buffer(buffer_.get() + end_, capacity_ - end_),
                          [self = shared_from_this()](error_code error, std::size_t bytes) {
                            self->on_read(error, bytes);
                          });
}

void session::on_read(error_code error, std::size_t bytes) {
  reading_ = false;
  if (!conversation_) return;
  if (error) return end(error);
  end_ += bytes;
  process();
}

void session::process() {
  while (!finishing_) {
    const bool was_validated = conversation_->validated();
    const auto used = conversation_->on_bytes({buffer_.get() + begin_, end_ - begin_}, replies_);
    const bool more = replies_.bytes_left() > conversation::unsent_bytes_max;
    if (!was_validated && conversation_->validated()) disarm();
    flush();
    space_->deliver_wakes();
    if (!conversation_) return;
    if (!used) return end(used.error());
    begin_ += *used;
    if (awaits_writable_) return;  // goes on when the replies are gone
    if (!more) break;
  }
  if (finishing_) begin_ = end_;  // only the end of the connection is of interest
  if (make_room()) read();
}

void session::flush() {
  while (!replies_.empty() && !awaits_writable_) {
    std::array<std::string_view, pieces_max> pieces;
    const std::size_t count = replies_.gather(pieces);
    error_code error;
    std::size_t sent = 0;
    if (count == 1) {
      sent = socket_.write_some(asio::buffer(pieces[0].data(), pieces[0].size()), error);
    } else {
      std::array<asio::const_buffer, pieces_max> buffers;
      for (std::size_t index = 0; index < count; ++index) {
        buffers[index] = asio::buffer(pieces[index].data(), pieces[index].size());
      }
      sent = socket_.write_some(buffers, error);
    }
    if (error == asio::error::would_block) return await_writable();
    if (error) return end(error);
    replies_.consume(sent);
  }
  if (replies_.empty() && finishing_) {
    error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

void session::await_writable() {
  awaits_writable_ = true;
  arm(space_->options().stall_limit, errc::peer_does_not_read);
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
    if (!self->conversation_) return;
    if (error) return self->end(error);
    self->awaits_writable_ = false;
    self->disarm();
    self->flush();
    if (self->conversation_ && !self->awaits_writable_ && !self->reading_) self->process();
  });
}

void session::wake() {
  conversation_->on_woken(replies_);
  flush();
}

void session::finish() {
  finishing_ = true;
  flush();
}

void session::cut() {
  end(asio::error::operation_aborted);
}

// False when the session has ended for want of memory.
bool session::make_room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (capacity_ > read_buffer_bytes) {
      space_->release_unfinished(capacity_);
      resize(read_buffer_bytes);
    }
    return true;
  }
  if (begin_ != 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ < capacity_) return true;
  // A length that the client claims is believed only as far as bytes have come.
  const std::size_t grown = std::min(2 * capacity_, conversation_->bytes_wanted());
  const std::size_t held = capacity_ > read_buffer_bytes ? capacity_ : 0;
  if (!space_->charge_unfinished(grown - held)) {
    end(errc::limit_reached);
    return false;
  }
  resize(grown);
  return true;
}

void session::resize(std::size_t capacity) {
  std::unique_ptr<char[]> moved(new char[capacity]);
  std::copy(buffer_.get() + begin_, buffer_.get() + end_, moved.get());
  end_ -= begin_;
  begin_ = 0;
  buffer_ = std::move(moved);
  capacity_ = capacity;
}

// One timer serves both limits, for a client that has not validated yet has no replies to take.
void session::arm(duration limit, errc reason) {
  timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor(), limit);
  timer_->async_wait([weak = weak_from_this(), armed = ++armed_, reason](error_code error) {
    const auto self = weak.lock();
    // It may have expired, and then been disarmed before this ran.
    if (!error && self && self->armed_ == armed) self->end(reason);
  });
}

void session::disarm() {
  ++armed_;
  timer_.reset();
}

void session::end(error_code reason) {
  if (!conversation_) return;
  if (!is_orderly(reason)) {
    space_->log(level_of(reason),
                "store: closed the connection of " + peer_of(socket_) + ": " + reason.message());
  }
  error_code ignored;
  socket_.close(ignored);
  disarm();
  const auto id = conversation_->id();
  conversation_.reset();
  if (capacity_ > read_buffer_bytes) space_->release_unfinished(capacity_);
  buffer_.reset();
  capacity_ = begin_ = end_ = 0;
  space_->deliver_wakes();
  space_->remove(id);
  space_->notify_if_empty();
}

}  // namespace ddprun::store
