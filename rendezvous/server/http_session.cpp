#include "rendezvous/server/http_session.hpp"

#include "rendezvous/base/version.hpp"
#include "rendezvous/server/runs_json.hpp"

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
#include <charconv>
#include <exception>
#include <string>
#include <system_error>
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

// "/api/v1/runs/job%201?offset=100&limit=20" taken apart.
struct wanted_page {
  std::string_view path;
  std::size_t offset = 0;
  std::size_t limit = members_per_page;
  std::string problem;  // of the query; empty: none
};

void read_parameter(std::string_view text, wanted_page& page) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals);
  std::size_t* const field = name == "offset"  ? &page.offset
                             : name == "limit" ? &page.limit
                                               : nullptr;
  if (field == nullptr) return;  // somebody else's
  const std::string_view value = text.substr(std::min(equals + 1, text.size()));
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *field);
  if (value.empty() || error != std::errc() || end != value.data() + value.size()) {
    page.problem = std::string(name) + " is no number";
  }
}

wanted_page page_of(std::string_view target) {
  wanted_page page;
  const std::size_t mark = std::min(target.find('?'), target.size());
  page.path = target.substr(0, mark);
  std::string_view query = target.substr(std::min(mark + 1, target.size()));
  while (!query.empty()) {
    const std::size_t size = std::min(query.find('&'), query.size());
    read_parameter(query.substr(0, size), page);
    query.remove_prefix(std::min(size + 1, query.size()));
  }
  return page;
}

bool wants_runs(std::string_view path) {
  return path == runs_path || path.starts_with(std::string(runs_path) + "/");
}

void answer_runs(const wanted_page& page, const http_views& views, response& answer) {
  if (!page.problem.empty()) {
    answer.result(http::status::bad_request);
    answer.body() = page.problem + "\n";
    return;
  }
  std::string body;
  if (page.path == runs_path) {
    body = runs_json(views.runs(page.offset));
  } else {
    const std::string id = from_url(page.path.substr(runs_path.size() + 1));
    const auto run = views.run(id, page.offset, page.limit);
    if (!run) {
      answer.result(http::status::not_found);
      answer.body() = "there is no such run; " + std::string(runs_path) + " lists all\n";
      return;
    }
    body = run_json(*run, page.offset);
  }
  answer.set(http::field::content_type, "application/json");
  answer.body() = std::move(body);
}

response answer_to(const request& asked, const http_views& views) {
  response answer(http::status::ok, asked.version());
  answer.set(http::field::server, "ddprun/" + std::string(version));
  answer.set(http::field::content_type, "text/plain; charset=utf-8");
  answer.keep_alive(asked.keep_alive());
  const wanted_page page = page_of({asked.target().data(), asked.target().size()});
  if (page.path != "/healthz" && !wants_runs(page.path)) {
    answer.result(http::status::not_found);
    answer.body() = "not found; there are /healthz and " + std::string(runs_path) + "\n";
  } else if (asked.method() != http::verb::get && asked.method() != http::verb::head) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET, HEAD");
    answer.body() = "only GET and HEAD are served here\n";
  } else if (page.path == "/healthz") {
    const std::string problem = views.problem ? views.problem() : std::string();
    answer.body() = problem.empty() ? "ok\n" : "ok, but kept in memory only: " + problem + "\n";
  } else {
    answer_runs(page, views, answer);
  }
  answer.prepare_payload();
  // HEAD: the length of the body, and no body.
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

bool is_peers_mistake(const error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

// A connection and its place among the others.
class peer {
 public:
  peer(net::tcp::socket socket, std::shared_ptr<waiting_room> others)
      : stream(std::move(socket)), others_(std::move(others)) {
    error_code ignored;
    stream.socket().non_blocking(true, ignored);
    place_ = others_->enter([this] { let_go(); });
  }
  ~peer() { others_->leave(place_); }
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  // Its request has come in full, or its answer has left.
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
    if (in_first_request_) stream.socket().write_some(asio::buffer(busy), ignored);
    stream.close();
  }

  std::shared_ptr<waiting_room> others_;
  waiting_room::ticket place_ = 0;
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
    if ((read_error && !is_peers_mistake(read_error)) || !who->is_open()) co_return;
    who->moves_on();
    const auto target = parser.get().target();
    if (!read_error && wants_runs(page_of({target.data(), target.size()}).path)) {
      asio::steady_timer turn(stream.get_executor(), pace->next(std::chrono::steady_clock::now()));
      co_await turn.async_wait(quietly);
      if (!who->is_open()) co_return;
    }
    const response answer =
        read_error ? answer_to_garbage(read_error) : answer_to(parser.get(), views);
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
                std::shared_ptr<waiting_room> others) {
  const net::executor where = socket.get_executor();
  auto who = std::make_shared<peer>(std::move(socket), std::move(others));
  asio::co_spawn(where, session(std::move(who), std::move(views), std::move(pace)),
                 [](const std::exception_ptr&) {
                   // An exception (no memory) ends this one session.
                 });
}

}  // namespace ddprun::server
