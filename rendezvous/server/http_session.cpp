#include "rendezvous/server/http_session.hpp"

#include "rendezvous/server/runs_json.hpp"
#include "rendezvous/version.hpp"

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
    answer.body() = "ok\n";
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

asio::awaitable<void> session(net::tcp::socket socket, http_views views,
                              std::shared_ptr<http_pace> pace) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(header_bytes_max + body_bytes_max);
  for (bool goes_on = true; goes_on;) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(header_bytes_max);
    parser.body_limit(body_bytes_max);
    stream.expires_after(request_limit);
    const auto [read_error, read_bytes] =
        co_await http::async_read(stream, buffer, parser, quietly);
    if (read_error && !is_peers_mistake(read_error)) co_return;
    const auto target = parser.get().target();
    if (!read_error && wants_runs(page_of({target.data(), target.size()}).path)) {
      asio::steady_timer turn(stream.get_executor(), pace->next(std::chrono::steady_clock::now()));
      co_await turn.async_wait(quietly);
    }
    const response answer =
        read_error ? answer_to_garbage(read_error) : answer_to(parser.get(), views);
    goes_on = answer.keep_alive();
    stream.expires_after(request_limit);
    const auto [write_error, written] = co_await http::async_write(stream, answer, quietly);
    if (write_error) co_return;
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
                std::function<void()> ended) {
  const net::executor where = socket.get_executor();
  asio::co_spawn(where, session(std::move(socket), std::move(views), std::move(pace)),
                 [ended = std::move(ended)](const std::exception_ptr&) {
                   // An exception (no memory) ends this one session.
                   ended();
                 });
}

}  // namespace ddprun::server
