#include "rendezvous/server/http_session.hpp"

#include "rendezvous/base/version.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace ddprun::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using request = http::request<http::string_body>;
using response = http::response<http::string_body>;

constexpr auto request_limit = std::chrono::seconds(10);
constexpr std::uint64_t body_bytes_max = 1024;
constexpr std::uint32_t header_bytes_max = 8 * 1024;
constexpr std::string_view busy =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    "Content-Type: text/plain\r\nContent-Length: 32\r\n\r\ntoo many connections; try again\n";
constexpr auto quietly = asio::as_tuple(asio::use_awaitable);

response response_to(const request& asked, const http_views& views) {
  const bool is_read = asked.method() == http::verb::get || asked.method() == http::verb::head;
  http_answer made = answer_to({asked.target().data(), asked.target().size()}, is_read, views);
  response answer(static_cast<http::status>(made.status), asked.version());
  answer.set(http::field::server, "ddprun/" + std::string(version));
  answer.set(http::field::content_type,
             made.is_json ? "application/json" : "text/plain; charset=utf-8");
  if (made.status == 405) answer.set(http::field::allow, "GET, HEAD");
  answer.keep_alive(asked.keep_alive());
  answer.body() = std::move(made.body);
  answer.prepare_payload();
  // The answer to HEAD has the length of the body, but no body.
  if (asked.method() == http::verb::head) answer.body().clear();
  return answer;
}

response answer_to_garbage(const error_code& error) {
  response answer(http::status::bad_request, 11);
  answer.set(http::field::content_type, "text/plain; charset=utf-8");
  answer.keep_alive(false);
  answer.body() = "not an HTTP request: " + error.message() + "\n";
  answer.prepare_payload();
  return answer;
}

// A closed connection is no mistake of the peer's: only what the HTTP parser rejects gets an
// answer.
bool is_peers_mistake(const error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

// A connection and its position among the evictable peers.
class peer {
 public:
  peer(net::tcp::socket socket, std::shared_ptr<evictable_peers> others)
      : stream(std::move(socket)), others_(std::move(others)) {
    error_code ignored;
    stream.socket().non_blocking(true, ignored);
    place_ = others_->enter([this] { let_go(); });
  }
  ~peer() { others_->leave(place_); }
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  // Its request has arrived completely, or its answer has left: it becomes the youngest.
  void moves_on() {
    in_first_request_ = false;
    others_->leave(place_);
    place_ = others_->enter([this] { let_go(); });
  }
  bool is_open() { return stream.socket().is_open(); }

  beast::tcp_stream stream;

 private:
  void let_go() {
    error_code ignored;
    // Later an answer may be under way, which this text would corrupt.
    if (in_first_request_) stream.socket().write_some(asio::buffer(busy), ignored);
    stream.close();
  }

  std::shared_ptr<evictable_peers> others_;
  evictable_peers::ticket place_ = 0;
  bool in_first_request_ = true;
};

asio::awaitable<void> session(std::shared_ptr<peer> who, http_views views,
                              std::shared_ptr<http_pace> pace) {
  beast::tcp_stream& stream = who->stream;
  beast::flat_buffer buffer(header_bytes_max + body_bytes_max);
  for (bool goes_on = true; goes_on;) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(header_bytes_max);
    parser.body_limit(body_bytes_max);
    stream.expires_after(request_limit);
    const auto [read_error, read_bytes] =
        co_await http::async_read(stream, buffer, parser, quietly);
    // The peer may have been evicted while this coroutine waited: check after each wait.
    if ((read_error && !is_peers_mistake(read_error)) || !who->is_open()) co_return;
    who->moves_on();
    const auto target = parser.get().target();
    if (!read_error && is_costly({target.data(), target.size()})) {
      asio::steady_timer turn(stream.get_executor(), pace->next(std::chrono::steady_clock::now()));
      co_await turn.async_wait(quietly);
      if (!who->is_open()) co_return;
    }
    const response answer =
        read_error ? answer_to_garbage(read_error) : response_to(parser.get(), views);
    goes_on = answer.keep_alive();
    stream.expires_after(request_limit);
    const auto [write_error, written] = co_await http::async_write(stream, answer, quietly);
    if (write_error || !who->is_open()) co_return;
    who->moves_on();
  }
  error_code ignored;
  stream.socket().shutdown(net::tcp::socket::shutdown_send, ignored);
}

}  // namespace

time_point http_pace::next(time_point now) {
  const time_point mine = std::max(now, next_);
  next_ = mine + interval;
  return mine;
}

void serve_http(net::tcp::socket socket, http_views views, std::shared_ptr<http_pace> pace,
                std::shared_ptr<evictable_peers> others) {
  const net::executor where = socket.get_executor();
  auto who = std::make_shared<peer>(std::move(socket), std::move(others));
  asio::co_spawn(where, session(std::move(who), std::move(views), std::move(pace)),
                 [](const std::exception_ptr&) {
                   // An exception (no memory) ends only this session.
                 });
}

}  // namespace ddprun::server
