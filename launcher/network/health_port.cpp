#include "launcher/network/health_port.hpp"

#include "rendezvous/base/version.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <chrono>
#include <string>
#include <utility>

namespace ddprun::launcher {
namespace {

namespace http = boost::beast::http;
using net::tcp;
using response = http::response<http::string_body>;

constexpr std::size_t clients_max = 16;
constexpr std::size_t request_bytes_max = 8 * 1024;

response answer_to(const http::request<http::empty_body>& asked) {
  const bool is_head = asked.method() == http::verb::head;
  const bool is_asked =
      (is_head || asked.method() == http::verb::get) && asked.target() == "/healthz";
  response answer(is_asked ? http::status::ok : http::status::not_found, 11);
  answer.set(http::field::server, "ddprun/" + std::string(version));
  answer.set(http::field::content_type, "text/plain; charset=utf-8");
  answer.keep_alive(false);
  answer.body() = is_asked ? "ok\n" : "only GET /healthz is answered here\n";
  answer.prepare_payload();
  // The answer to HEAD has the length of the body, but no body.
  if (is_head) answer.body().clear();
  return answer;
}

}  // namespace

// Keeps itself alive while an operation is pending.
class health_port::client : public std::enable_shared_from_this<health_port::client> {
 public:
  client(tcp::socket socket, std::shared_ptr<std::size_t> count)
      : stream_(std::move(socket)), buffer_(request_bytes_max), count_(std::move(count)) {
    ++*count_;
    request_.header_limit(request_bytes_max);
  }
  ~client() { --*count_; }
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  // Anything but a request without a body is disconnected.
  void serve(std::chrono::milliseconds patience) {
    stream_.expires_after(patience);
    http::async_read(stream_, buffer_, request_,
                     [self = shared_from_this()](error_code error, std::size_t) {
                       if (!error) self->answer();
                     });
  }

 private:
  void answer() {
    answer_ = answer_to(request_.get());
    http::async_write(stream_, answer_, [self = shared_from_this()](error_code error, std::size_t) {
      error_code ignored;
      if (!error) self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    });
  }

  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;
  http::request_parser<http::empty_body> request_;
  response answer_;
  std::shared_ptr<std::size_t> count_;
};

health_port::health_port(net::executor loop, std::chrono::milliseconds patience)
    : listener_(std::move(loop)), patience_(patience), clients_(std::make_shared<std::size_t>(0)) {}

error_code health_port::open(std::uint16_t port) {
  std::string problem;
  const auto opened = listener_.open("", port, problem);
  if (!opened) return opened.error();
  port_ = *opened;
  net::listener_handlers handlers;
  handlers.on_accept = [patience = patience_, clients = clients_](tcp::socket socket) {
    if (*clients < clients_max)
      std::make_shared<client>(std::move(socket), clients)->serve(patience);
  };
  listener_.start(std::move(handlers));
  return {};
}

}  // namespace ddprun::launcher
