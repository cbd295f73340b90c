// Runs an io_context until a condition holds, for tests over real loopback sockets.
#pragma once

#include "tests/support/patience.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::tests {

// Returns true as soon as `done()` holds, or false after a limit that only a hang reaches. The
// condition may come true on another thread while `io` has nothing to do, so `io` is kept from
// running out of work.
template <typename Done>
bool run_until(boost::asio::io_context& io, Done done, std::chrono::seconds limit = patience) {
  const auto last = std::chrono::steady_clock::now() + limit;
  const auto work = boost::asio::make_work_guard(io);
  while (!done()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= last) return false;
    if (io.stopped()) io.restart();
    io.run_one_for(
        std::min<std::chrono::steady_clock::duration>(last - now, std::chrono::milliseconds(5)));
  }
  return true;
}

// Runs all handlers that are ready now, without waiting.
inline void run_ready(boost::asio::io_context& io) {
  if (io.stopped()) io.restart();
  while (io.poll() != 0) {
  }
}

using boost::asio::ip::tcp;

inline tcp::endpoint loopback(std::uint16_t port) {
  return {boost::asio::ip::address_v4::loopback(), port};
}

// A port of loopback at which nobody listens: bound, so that nobody else takes it meanwhile.
struct silent_port {
  explicit silent_port(boost::asio::io_context& io) : socket(io) {
    socket.open(tcp::v4());
    socket.bind(loopback(0));
  }
  std::uint16_t port() const { return socket.local_endpoint().port(); }
  tcp::socket socket;
};

// Two connected sockets.
inline std::pair<tcp::socket, tcp::socket> socket_pair(boost::asio::io_context& io) {
  tcp::acceptor acceptor(io, loopback(0));
  tcp::socket near(io);
  near.connect(acceptor.local_endpoint());
  return {std::move(near), acceptor.accept()};
}

// What a raw peer has received so far, without waiting; `closed` is true after the end of the
// stream.
class raw_peer {
 public:
  explicit raw_peer(tcp::socket socket) : socket_(std::move(socket)) { socket_.non_blocking(true); }
  raw_peer(boost::asio::io_context& io, std::uint16_t port) : socket_(io) {
    socket_.connect(loopback(port));
    socket_.non_blocking(true);
  }
  void say(std::string_view bytes) { boost::asio::write(socket_, boost::asio::buffer(bytes)); }
  const std::string& heard() {
    char chunk[4096];
    boost::system::error_code error;
    while (!error) {
      const std::size_t size = socket_.read_some(boost::asio::buffer(chunk), error);
      heard_.append(chunk, size);
    }
    if (error != boost::asio::error::would_block) closed_ = true;
    return heard_;
  }
  bool closed() {
    heard();
    return closed_;
  }
  std::size_t lines() {
    std::size_t count = 0;
    for (const char byte : heard())
      count += byte == '\n';
    return count;
  }
  tcp::socket& socket() { return socket_; }

 private:
  tcp::socket socket_;
  std::string heard_;
  bool closed_ = false;
};

}  // namespace ddprun::tests
