#include "launcher/network/health_port.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::tcp;

constexpr std::size_t clients_max = 16;
constexpr std::size_t request_bytes_max = 8 * 1024;

std::string answer_to(std::string_view request) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const bool is_head = line.starts_with("HEAD ");
  const bool is_asked = line.starts_with("GET /healthz ") || line.starts_with("HEAD /healthz ");
  const std::string_view body = is_asked ? "ok\n" : "only GET /healthz is answered here\n";
  return std::string("HTTP/1.1 ") + (is_asked ? "200 OK" : "404 Not Found") +
         "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + (is_head ? "" : std::string(body));
}

}  // namespace

// Lives as long as something is under way.
class health_port::client : public std::enable_shared_from_this<health_port::client> {
 public:
  client(tcp::socket socket, std::shared_ptr<std::size_t> count)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), count_(std::move(count)) {
    ++*count_;
  }
  ~client() { --*count_; }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  void serve(std::chrono::milliseconds patience) {
    timer_.expires_after(patience);
    timer_.async_wait([self = weak_from_this()](error_code cancelled) {
      const auto here = self.lock();
      if (!cancelled && here) here->cut_off();
    });
    boost::asio::async_read_until(socket_, boost::asio::dynamic_buffer(request_, request_bytes_max),
                                  "\r\n\r\n",
                                  [self = shared_from_this()](error_code error, std::size_t) {
                                    if (!error) self->answer();
                                  });
  }

 private:
  void cut_off() {
    error_code ignored;
    socket_.close(ignored);
  }

  void answer() {
    answer_ = answer_to(request_);
    boost::asio::async_write(socket_, boost::asio::buffer(answer_),
                             [self = shared_from_this()](error_code error, std::size_t) {
                               if (error) return;
                               error_code ignored;
                               self->socket_.shutdown(tcp::socket::shutdown_send, ignored);
                             });
  }

  tcp::socket socket_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<std::size_t> count_;
  std::string request_;
  std::string answer_;
};

health_port::health_port(boost::asio::any_io_executor loop, std::chrono::milliseconds patience)
    : acceptor_(loop), patience_(patience), clients_(std::make_shared<std::size_t>(0)) {}

error_code health_port::listen(const tcp::endpoint& where) {
  error_code error;
  acceptor_.open(where.protocol(), error);
  if (!error && where.address().is_v6())
    acceptor_.set_option(boost::asio::ip::v6_only(false), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(where, error);
  if (!error) acceptor_.listen(boost::asio::socket_base::max_listen_connections, error);
  if (error) close();
  return error;
}

// Both families, where this host has IPv6.
error_code health_port::open(std::uint16_t port) {
  error_code error = listen({tcp::v6(), port});
  if (error && error != boost::system::errc::address_in_use) error = listen({tcp::v4(), port});
  if (!error) accept();
  return error;
}

void health_port::close() {
  error_code ignored;
  acceptor_.close(ignored);
}

void health_port::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (error == boost::asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (!error && *clients_ < clients_max)
      std::make_shared<client>(std::move(socket), clients_)->serve(patience_);
    if (!error || error == boost::asio::error::connection_aborted) return accept();
    // Out of descriptors: the next probe finds nobody, and a later one is heard again.
    const auto pause = std::make_shared<boost::asio::steady_timer>(acceptor_.get_executor(),
                                                                   std::chrono::seconds(1));
    pause->async_wait([this, pause](error_code) {
      if (acceptor_.is_open()) accept();
    });
  });
}

}  // namespace ddprun::launcher
