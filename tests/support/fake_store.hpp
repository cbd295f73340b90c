// A scripted server on loopback with a thread of its own, for tests of a client: it reads as many
// bytes as it is told to, and sends what it is told to, byte by byte if need be.
//
//   fake_store store([](fake_store::peer& client) {
//     client.hear(10);
//     client.say("SSH-2.0-");
//   });
//
// The script runs for each connection in turn, and the connection is closed when it returns. The
// destructor closes an open connection, which ends a script that waits on it.
#pragma once

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <boost/asio/read.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <sys/socket.h>
#include <thread>

namespace ddprun::tests {

class fake_store {
 public:
  class peer {
   public:
    explicit peer(boost::asio::ip::tcp::socket& socket) : socket_(socket) {}
    // False if the connection ended first.
    bool hear(std::size_t bytes) {
      heard.resize(bytes);
      boost::system::error_code error;
      boost::asio::read(socket_, boost::asio::buffer(heard), error);
      return !error;
    }
    bool say(std::string_view bytes) {
      boost::system::error_code error;
      boost::asio::write(socket_, boost::asio::buffer(bytes.data(), bytes.size()), error);
      return !error;
    }
    // Reads VALIDATE and PING, and answers.
    bool greet() { return hear(10) && say(heard.substr(6)); }
    // Returns when the client has closed, or the test ends.
    void stay() {
      while (hear(1)) {
      }
    }
    // The connection ends with a reset when the script returns.
    void reset_at_the_end() { socket_.set_option(boost::asio::socket_base::linger(true, 0)); }
    std::string heard;  // read by the last `hear`

   private:
    boost::asio::ip::tcp::socket& socket_;
  };

  explicit fake_store(std::function<void(peer&)> part, std::uint16_t port = 0)
      : acceptor_(context_, tests::loopback(port)), part_(std::move(part)) {
    thread_ = std::thread([this] { serve(); });
  }
  ~fake_store() {
    ending_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      if (open_ >= 0) ::shutdown(open_, SHUT_RDWR);
    }
    thread_.join();
  }
  fake_store(const fake_store&) = delete;

  std::uint16_t port() { return acceptor_.local_endpoint().port(); }
  int connections() const { return connections_; }

 private:
  void serve() {
    while (!ending_) {
      boost::system::error_code error;
      boost::asio::ip::tcp::socket socket = acceptor_.accept(error);
      if (error) return;
      ++connections_;
      set_open(socket.native_handle());
      peer client(socket);
      if (!ending_) part_(client);
      set_open(-1);
    }
  }
  void set_open(int descriptor) {
    const std::lock_guard lock(mutex_);
    open_ = descriptor;
  }

  boost::asio::io_context context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  std::function<void(peer&)> part_;
  std::atomic<bool> ending_ = false;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  int open_ = -1;
  std::thread thread_;
};

}  // namespace ddprun::tests
