#include "rendezvous/store/session.hpp"

#include "rendezvous/net/types.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace ddprun::store {

namespace {

// Replies are sent in at most so many pieces by one system call.
constexpr std::size_t pieces_max = 16;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool is_orderly(const error_code& reason) {
  namespace asio = boost::asio;
  return !reason || reason == asio::error::eof || reason == asio::error::operation_aborted ||
         reason == asio::error::connection_reset || reason == asio::error::broken_pipe;
}

// A stranger is not worth a warning: any port is probed by somebody.
note_level level_of(const error_code& reason) {
  const bool stranger = reason == errc::wrong_protocol || reason == errc::connection_silent;
  return stranger ? note_level::info : note_level::warning;
}

std::string peer_of(int socket) {
  net::tcp::endpoint peer;
  auto length = static_cast<socklen_t>(peer.capacity());
  if (::getpeername(socket, peer.data(), &length) != 0) return "a client that is gone";
  peer.resize(length);
  return net::address_text(peer.address()) + " port " + std::to_string(peer.port());
}

}  // namespace

void start_session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space) {
  std::make_shared<session>(std::move(socket), loop, std::move(space))->start();
}

session::session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space)
    : socket_(std::move(socket)),
      loop_(loop),
      space_(std::move(space)),
      conversation_(space_->values()) {
  space_->add(*this, conversation_->id());
}

// Destroyed with its reactor, a session has not ended yet; nobody is told then.
session::~session() {
  if (!conversation_) return;
  space_->remove(conversation_->id());
  space_->release_buffered(held_);
  space_->not_stalled(stalled_);
}

void session::start() {
  set_nonblocking(socket_.get());
  const int on = 1;  // not vital; a dead peer is seen at the read
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  resize(read_buffer_bytes);
  if (const error_code error = loop_.add(socket_.get(), EPOLLIN, shared_from_this())) {
    return end(error);
  }
  loop_.set_deadline(socket_.get(), space_->options().validate_limit);
  if (space_->finishing()) finish();
}

void session::on_ready(std::uint32_t) {
  if (!conversation_) return;
  if (given_up_) return end(errc::peer_does_not_read);
  if (awaits_writable_) return is_writable();
  read();
}

// One deadline serves both limits, for a client that has not validated yet has no replies to take.
void session::on_deadline() {
  end(awaits_writable_ ? errc::peer_does_not_read : errc::connection_silent);
}

void session::read() {
  const auto count = ::recv(socket_.get(), buffer_.get() + end_, capacity_ - end_, 0);
  if (count > 0) {
    end_ += static_cast<std::size_t>(count);
    return process();
  }
  if (count == 0) return end(boost::asio::error::eof);
  if (!would_block()) end(last_system_error());
}

void session::process() {
  while (!finishing_) {
    const bool was_validated = conversation_->validated();
    const auto used = conversation_->on_bytes({buffer_.get() + begin_, end_ - begin_}, replies_);
    const bool more = replies_.bytes_left() > conversation::unsent_bytes_max;
    if (!was_validated && conversation_->validated()) loop_.clear_deadline(socket_.get());
    flush();
    space_->deliver_wakes();
    if (!conversation_) return;
    if (!used) return end(used.error());
    begin_ += *used;
    if (awaits_writable_) return;  // goes on when the replies are gone
    if (!more) break;
  }
  if (finishing_) begin_ = end_;  // only the end of the connection is of interest
  make_room();
}

void session::flush() {
  while (!replies_.empty() && !awaits_writable_) {
    std::array<std::string_view, pieces_max> pieces;
    const std::size_t count = replies_.gather(pieces);
    ssize_t sent = 0;
    if (count == 1) {
      sent = ::send(socket_.get(), pieces[0].data(), pieces[0].size(), MSG_NOSIGNAL);
    } else {
      std::array<iovec, pieces_max> vectors{};
      for (std::size_t index = 0; index < count; ++index) {
        vectors[index] = {const_cast<char*>(pieces[index].data()), pieces[index].size()};
      }
      msghdr message{};
      message.msg_iov = vectors.data();
      message.msg_iovlen = count;
      sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    }
    if (sent < 0) {
      if (would_block()) return await_writable();
      return end(last_system_error());
    }
    replies_.consume(static_cast<std::size_t>(sent));
  }
  if (replies_.empty() && finishing_) ::shutdown(socket_.get(), SHUT_WR);
}

// Until the client takes its replies nothing more is read from it.
void session::await_writable() {
  awaits_writable_ = true;
  if (!hold(capacity_)) return end(errc::limit_reached);
  stalled_ = space_->stalled(*this);
  loop_.set_deadline(socket_.get(), space_->options().stall_limit);
  loop_.change(socket_.get(), EPOLLOUT);
}

void session::is_writable() {
  awaits_writable_ = false;
  space_->not_stalled(stalled_);
  flush();
  if (!conversation_) return;
  if (awaits_writable_) return;
  hold(capacity_);
  loop_.clear_deadline(socket_.get());
  loop_.change(socket_.get(), EPOLLIN);
  process();
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
  end(boost::asio::error::operation_aborted);
}

void session::give_up() {
  given_up_ = true;
  replies_ = {};
  hold(capacity_);
  ::shutdown(socket_.get(), SHUT_RDWR);  // the loop finds it ready
}

// For what comes next; ends the session where memory is short.
void session::make_room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (capacity_ > read_buffer_bytes) {
      resize(read_buffer_bytes);
      hold(capacity_);
    }
    return;
  }
  if (begin_ != 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ < capacity_) return;
  // A length that the client claims is believed only as far as bytes have come. What is wanted may
  // be no more than the next of many keys: by less than half each time, a request of n keys would
  // be moved n times.
  const std::size_t least = capacity_ + capacity_ / 2;
  const std::size_t grown = std::clamp(conversation_->bytes_wanted(), least, 2 * capacity_);
  if (!hold(grown)) return end(errc::limit_reached);
  resize(grown);
}

// Accounts for a read buffer of `capacity` and for replies that cannot be sent. False, and nothing
// has changed, where all sessions together would hold too much.
bool session::hold(std::size_t capacity) {
  std::size_t bytes = capacity > read_buffer_bytes ? capacity : 0;
  if (awaits_writable_) bytes += replies_.memory();
  if (bytes > held_ && !space_->charge_buffered(bytes - held_)) return false;
  if (bytes < held_) space_->release_buffered(held_ - bytes);
  held_ = bytes;
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

void session::end(error_code reason) {
  if (!conversation_) return;
  if (!is_orderly(reason)) {
    space_->log(level_of(reason), "store: closed the connection of " + peer_of(socket_.get()) +
                                      ": " + reason.message());
  }
  const auto keep = shared_from_this();
  loop_.remove(socket_.get());
  socket_.reset();
  const auto id = conversation_->id();
  conversation_.reset();
  space_->release_buffered(std::exchange(held_, 0));
  space_->not_stalled(stalled_);
  buffer_.reset();
  capacity_ = begin_ = end_ = 0;
  space_->deliver_wakes();
  space_->remove(id);
  space_->notify_if_empty();
}

}  // namespace ddprun::store
