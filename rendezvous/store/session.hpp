// A session serves one accepted connection of a TCPStore client, by callbacks round the pure
// `conversation::on_bytes()` (design section 10: a coroutine per read costs a tenth more).
//
// It lives by itself until the client closes, breaks a rule, or the keyspace ends it. Memory is
// bounded: an idle session holds `read_buffer_bytes`, a request that has not arrived in full grows
// the buffer as its bytes come, and while replies cannot be sent nothing more is read.
//
//   store::start_session(std::move(socket), space, "");     // a listener of its own
//   store::start_session(std::move(socket), space, bytes);  // a port that others sniffed
//
// Thread rule: the thread of the keyspace, which runs the socket's executor.
// Errors: ended sessions are reported to the keyspace's log, once, unless the client left in order.
#pragma once

#include "rendezvous/store/conversation.hpp"
#include "rendezvous/store/keyspace.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace ddprun::store {

// The first byte of every TCPStore connection, which tells it from other protocols on one port.
inline constexpr char first_byte = 0;

// Serves `socket` with `space`. `bytes` were read from it before; they may be none, or more than
// the first request.
void start_session(boost::asio::ip::tcp::socket socket, std::shared_ptr<keyspace> space,
                   std::string_view bytes = {});

class session : public std::enable_shared_from_this<session> {
 public:
  // Holds every request of PyTorch's client but those with large values.
  static constexpr std::size_t read_buffer_bytes = 2048;

  session(boost::asio::ip::tcp::socket socket, std::shared_ptr<keyspace> space);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void start(std::string_view bytes);

  // By the keyspace.
  void wake();
  void finish();
  void cut();

 private:
  void read();
  void on_read(error_code error, std::size_t bytes);
  void process();
  void flush();
  void await_writable();
  bool make_room();
  void resize(std::size_t capacity);
  void arm(duration limit, errc reason);
  void disarm();
  void end(error_code reason);

  boost::asio::ip::tcp::socket socket_;
  std::shared_ptr<keyspace> space_;
  std::optional<conversation> conversation_;  // none: the session has ended
  protocol::tcpstore::replies replies_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // bytes [begin_, end_) of the buffer have not been used
  std::size_t end_ = 0;
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::uint32_t armed_ = 0;  // tells the newest use of the timer from older ones
  bool reading_ = false;
  bool awaits_writable_ = false;
  bool finishing_ = false;
};

}  // namespace ddprun::store
