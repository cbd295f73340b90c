// A listener on its own thread, and clients with blocking sockets, for tests over loopback.
#pragma once

#include "rendezvous/protocol/tcpstore.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/store_listener.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <type_traits>
#include <vector>

namespace ddprun::tests {

namespace asio = boost::asio;

// Limits longer than anything takes that works, so that a failure ends the test and does not hang
// it.
class served_store {
 public:
  explicit served_store(store::keyspace_options options = {}, std::uint16_t port = 0) {
    options.log = [this](note_level, const std::string& text) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(text);
    };
    listener_.emplace(loop_, std::move(options));
    REQUIRE_FALSE(listener_->listen(port));
    port_ = listener_->port();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~served_store() {
    loop_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  store::reactor& loop() { return loop_; }
  tests::store_listener& listener() { return *listener_; }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  // Runs `function` on the store's thread and returns what it returns.
  template <typename Function>
  std::invoke_result_t<Function> on_thread(Function function) {
    std::packaged_task<std::invoke_result_t<Function>()> task(std::move(function));
    auto done = task.get_future();
    loop_.post([&task] { task(); });
    return done.get();
  }

  // Waits, without sleeping, until `condition` holds on the store's thread.
  template <typename Condition>
  bool eventually(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < limit) {
      if (on_thread(condition)) return true;
      std::this_thread::yield();
    }
    return false;
  }
  std::size_t sessions() {
    return on_thread([this] { return listener_->space().session_count(); });
  }

 private:
  store::reactor loop_;
  std::optional<tests::store_listener> listener_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::thread thread_;
};

class loopback_client {
 public:
  explicit loopback_client(std::uint16_t port, bool validate = true) {
    socket_.connect({asio::ip::address_v4::loopback(), port});
    socket_.set_option(asio::ip::tcp::no_delay(true));
    const timeval limit{std::chrono::seconds(patience).count(), 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (validate) ask(protocol::tcpstore::opcode::validate, {}, protocol::tcpstore::validate_magic);
  }

  void say(std::string_view bytes) { asio::write(socket_, asio::buffer(bytes)); }
  void ask(protocol::tcpstore::opcode code, std::initializer_list<std::string_view> strings = {},
           std::int64_t number = 0) {
    std::string bytes;
    protocol::tcpstore::append_request(bytes, code, strings, number);
    say(bytes);
  }
  std::string hear(std::size_t bytes) {
    std::string heard(bytes, '\0');
    asio::read(socket_, asio::buffer(heard));
    return heard;
  }
  std::string hear_string() {
    const std::string length = hear(8);
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, length.data(), sizeof bytes);
    return hear(bytes);
  }
  // True if the store ends the connection, in order or not, without sending anything more.
  bool is_closed() {
    char byte = 0;
    error_code error;
    socket_.read_some(asio::buffer(&byte, 1), error);
    return error == asio::error::eof || error == asio::error::connection_reset;
  }
  asio::ip::tcp::socket& socket() { return socket_; }

 private:
  asio::io_context context_{1};
  asio::ip::tcp::socket socket_{context_};
};

}  // namespace ddprun::tests
