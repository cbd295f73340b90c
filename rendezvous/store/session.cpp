#include "rendezvous/store/session.hpp"

#include "rendezvous/net/net_types.hpp"
#include "rendezvous/store/system_calls.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/tcp.h>
#include <new>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

namespace ddprun::store {

namespace {

// How many pieces of replies one system call sends at most.
constexpr std::size_t pieces_max = 16;

// Edge-triggered, so that epoll does not check after each request whether more is there.
constexpr std::uint32_t readable = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;
constexpr std::uint32_t writable = EPOLLOUT | EPOLLET;
// With these events there may be more than one read returns, however little that was: the end of
// the stream, or what follows urgent bytes, at which a read stops.
constexpr std::uint32_t read_again = EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool is_orderly(const error_code& reason) {
  namespace asio = boost::asio;
  return !reason || reason == asio::error::eof || reason == asio::error::operation_aborted ||
         reason == asio::error::connection_reset || reason == asio::error::broken_pipe;
}

// Any port is probed by strangers, so they are not worth a warning.
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

ssize_t send_pieces(int socket, const protocol::tcpstore::replies& replies) {
  std::array<std::string_view, pieces_max> pieces;
  const std::size_t count = replies.gather(pieces);
  std::array<iovec, pieces_max> vectors{};
  for (std::size_t index = 0; index < count; ++index) {
    vectors[index] = {const_cast<char*>(pieces[index].data()), pieces[index].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

}  // namespace

void start_session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space) {
  try {
    std::make_shared<session>(std::move(socket), loop, std::move(space))->start();
  } catch (const std::bad_alloc&) {
    // No memory: the connection is closed, and nothing can be logged.
  }
}

// If there is no memory for a client's request, only that client's session ends.
template <typename Step>
void session::guarded(Step step) {
  try {
    step();
  } catch (const std::bad_alloc&) {
    space_->replies().clear();
    end(boost::asio::error::no_memory);
  }
}

session::session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space)
    : socket_(std::move(socket)),
      space_(std::move(space)),
      store_protocol_(space_->values()),
      loop_(loop) {
  space_->add(*this, store_protocol_->id());
}

// A session that is destroyed with its reactor has not ended; it only releases its share.
session::~session() {
  if (!store_protocol_) return;
  space_->remove(store_protocol_->id());
  space_->release_buffered(held_);
  space_->not_stalled(stalled_);
  space_->speaks(mute_);
}

void session::start() {
  set_nonblocking(socket_.get());
  const int on = 1;  // optional: replies only leave a little later without it
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (const error_code error = loop_.add(socket_.get(), readable, shared_from_this())) {
    return end(error);
  }
  guarded([this] {
    loop_.set_deadline(socket_.get(), space_->options().validate_limit);
    mute_ = space_->mute(*this);
    is_mute_ = true;
  });
  if (store_protocol_ && space_->finishing()) finish();
}

void session::on_ready(std::uint32_t events) {
  if (!store_protocol_) return;
  if (given_up_) return end(awaits_writable_ ? errc::peer_does_not_read : errc::limit_reached);
  guarded([this, events] {
    if (awaits_writable_) return is_writable();
    read((events & read_again) != 0);
  });
}

// One deadline serves all limits: a client that has not validated has no replies to read, and while
// a client does not read its replies, no request is read from it.
void session::on_deadline() {
  if (awaits_writable_) return end(errc::peer_does_not_read);
  end(store_protocol_->validated() ? errc::timed_out : errc::connection_silent);
}

// Most requests are read into the keyspace's buffer, which stays in the CPU caches. `more`: there
// may be more than one read returns, and epoll will not report it again.
void session::read(bool more) {
  const std::span<char> shared = space_->read_buffer();
  char* const start = buffer_ ? buffer_.get() : shared.data();
  const std::size_t capacity = buffer_ ? capacity_ : shared.size();
  const std::size_t before = unused_.size();
  if (buffer_) space_->not_stalled(stalled_);  // it must not be given up in its own turn
  const auto count = system_calls::recv(socket_.get(), start + before, capacity - before, 0);
  if (count > 0) {
    // Re-arm the event, so that the rest is read after the others have had their turn.
    const bool full = static_cast<std::size_t>(count) == capacity - before;
    if (full || more) loop_.change(socket_.get(), readable);
    unused_ = {start, before + static_cast<std::size_t>(count)};
    return process();
  }
  if (count == 0) return end(boost::asio::error::eof);
  if (!would_block()) return end(last_system_error());
  if (buffer_) stall();
}

void session::process() {
  while (!finishing_) {
    const bool was_validated = store_protocol_->validated();
    auto& pending = replies();
    const auto used = store_protocol_->on_bytes(unused_, pending);
    const bool more = pending.bytes_left() > store_protocol::unsent_bytes_max;
    if (!was_validated && store_protocol_->validated()) loop_.clear_deadline(socket_.get());
    if (is_mute_ && store_protocol_->has_used()) speaks();
    send(pending);
    space_->deliver_wakes();
    // Sending, or waking others, may have ended this session.
    if (!store_protocol_ || given_up_) return;
    if (!used) return end(used.error());
    unused_.remove_prefix(*used);
    if (awaits_writable_ || !more) break;  // the rest is used when the replies are sent
  }
  if (finishing_) unused_ = {};  // only the end of the connection matters now
  if (!unused_.empty()) {
    keep_unused();
  } else if (buffer_) {
    drop_buffer();
  }
}

protocol::tcpstore::replies& session::replies() {
  return unsent_ ? *unsent_ : space_->replies();
}

// Always leaves the keyspace's replies empty.
void session::send(protocol::tcpstore::replies& pending) {
  while (!pending.empty() && !awaits_writable_) {
    const std::string_view whole = pending.only_piece();
    const ssize_t sent =
        whole.empty() ? send_pieces(socket_.get(), pending)
                      : system_calls::send(socket_.get(), whole.data(), whole.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (would_block()) return await_writable();
      const error_code error = last_system_error();
      pending.clear();
      return end(error);
    }
    pending.consume(static_cast<std::size_t>(sent));
  }
  if (awaits_writable_) return;
  if (unsent_) unsent_.reset();
  // Only now: FIN must come after the last reply.
  if (finishing_) ::shutdown(socket_.get(), SHUT_WR);
}

// Until the client has read its replies, nothing more is read from it.
void session::await_writable() {
  space_->not_stalled(stalled_);
  if (!unsent_) unsent_ = space_->take_replies();
  awaits_writable_ = true;
  if (!hold(capacity_)) return end(errc::limit_reached);
  stall();
  loop_.change(socket_.get(), writable);
}

// The client has to read or to send before anything continues here.
void session::stall() {
  space_->not_stalled(stalled_);
  stalled_ = space_->stalled(*this);
  // Before VALIDATE, the deadline of a stranger stays in place.
  if (store_protocol_->validated()) {
    loop_.set_deadline(socket_.get(), space_->options().stall_limit);
  }
}

void session::is_writable() {
  awaits_writable_ = false;
  space_->not_stalled(stalled_);
  send(*unsent_);
  if (!store_protocol_ || awaits_writable_) return;
  hold(capacity_);
  loop_.clear_deadline(socket_.get());
  loop_.change(socket_.get(), readable);
  process();
}

void session::wake() {
  if (given_up_ || !store_protocol_) return;
  guarded([this] {
    store_protocol_->on_woken(replies());
    send(replies());
  });
}

void session::finish() {
  finishing_ = true;
  guarded([this] { send(replies()); });
}

void session::cut() {
  end(boost::asio::error::operation_aborted);
}

void session::speaks() {
  is_mute_ = false;
  space_->speaks(mute_);
}

void session::cut_mute() {
  end(errc::connection_silent);
}

void session::give_up() {
  given_up_ = true;
  unsent_.reset();
  unused_ = {};
  buffer_.reset();
  capacity_ = 0;
  space_->release_buffered(std::exchange(held_, 0));
  ::shutdown(socket_.get(), SHUT_RDWR);  // makes the loop call this session
}

// Makes room for what arrives next; ends the session if that exceeds the limit.
void session::keep_unused() {
  std::size_t capacity = std::max(capacity_, read_buffer_bytes);
  // A length that a client claims is trusted only as far as bytes have arrived. Grow by half at
  // least: the number of bytes wanted may cover only the next of many keys, and with smaller steps
  // a request of n keys would be moved n times.
  if (unused_.size() == capacity) {
    capacity = std::clamp(store_protocol_->bytes_wanted(), capacity + capacity / 2, 2 * capacity);
  } else if (unused_.size() < capacity / 4) {
    // The large request in the buffer is finished.
    capacity = std::max(2 * unused_.size(), read_buffer_bytes);
  }
  if (!move_unused(capacity)) return end(errc::limit_reached);
  if (!awaits_writable_) stall();
}

// Moves the unused bytes to the start of this session's own buffer. Returns false if all sessions
// would hold too much.
bool session::move_unused(std::size_t capacity) {
  if (capacity != capacity_) {
    if (capacity > capacity_ && !hold(capacity)) return false;
    std::unique_ptr<char[]> other(new char[capacity]);
    std::memcpy(other.get(), unused_.data(), unused_.size());
    buffer_ = std::move(other);
    capacity_ = capacity;
  } else {
    std::memmove(buffer_.get(), unused_.data(), unused_.size());
  }
  unused_ = {buffer_.get(), unused_.size()};
  return hold(capacity_);
}

void session::drop_buffer() {
  buffer_.reset();
  hold(capacity_ = 0);
  if (awaits_writable_) return;
  space_->not_stalled(stalled_);
  loop_.clear_deadline(socket_.get());
}

// Accounts for a read buffer of `capacity`, the parsed part of its request, and unsent replies.
// Returns false, without a change, if all sessions together would hold too much.
bool session::hold(std::size_t capacity) {
  std::size_t bytes = capacity > read_buffer_bytes ? capacity : 0;
  if (store_protocol_) bytes += store_protocol_->memory();
  if (unsent_) bytes += unsent_->memory();
  if (bytes <= held_) {
    space_->release_buffered(held_ - bytes);
    held_ = bytes;
    return true;
  }
  // To make room the keyspace may give up this very session, which then holds less than before.
  const std::size_t more = bytes - held_;
  if (!space_->charge_buffered(more)) return false;
  held_ += more;
  return true;
}

void session::report(error_code reason) const {
  if (is_orderly(reason)) return;
  try {
    space_->log(level_of(reason), "store: closed the connection of " + peer_of(socket_.get()) +
                                      ": " + reason.message());
  } catch (const std::bad_alloc&) {
    // The message is not logged.
  }
}

void session::end(error_code reason) {
  if (!store_protocol_) return;
  report(reason);
  const auto self = shared_from_this();
  loop_.remove(socket_.get());
  const auto id = store_protocol_->id();
  store_protocol_.reset();
  space_->release_buffered(std::exchange(held_, 0));
  space_->not_stalled(stalled_);
  speaks();
  buffer_.reset();
  unused_ = {};
  // This session lives until the end of the loop's turn, but others may need the memory before.
  unsent_.reset();
  space_->deliver_wakes();
  space_->remove(id);
  socket_.reset();  // last: a peer that sees this and reconnects must find it uncounted
  space_->notify_if_empty();
}

}  // namespace ddprun::store
