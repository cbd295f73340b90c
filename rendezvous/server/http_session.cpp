#include "rendezvous/server/http_session.hpp"

#include "rendezvous/version.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <nlohmann/json.hpp>

#include <exception>
#include <utility>

namespace ddprun::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using json = nlohmann::ordered_json;
using request = http::request<http::string_body>;
using response = http::response<http::string_body>;

constexpr auto request_limit = std::chrono::seconds(10);
constexpr std::uint64_t body_bytes_max = 1024;
constexpr std::uint32_t header_bytes_max = 8 * 1024;
constexpr auto quietly = asio::as_tuple(asio::use_awaitable);

json to_json(const cause& value) {
  json object;
  object["round"] = value.round;
  object["node"] = value.node;
  object["kind"] = to_string(value.kind);
  if (value.rank) object["rank"] = *value.rank;
  if (value.local_rank) object["local_rank"] = *value.local_rank;
  object["code"] = value.code;
  object["text"] = value.text;
  object["tail"] = value.tail;
  return object;
}

json to_json(const core::member_view& value) {
  json object;
  object["node"] = value.node;
  object["host"] = value.host;
  object["address"] = value.address;
  object["worker_count"] = value.worker_count;
  if (value.slot) object["slot"] = *value.slot;
  if (value.rank_first) object["rank_first"] = *value.rank_first;
  object["phase"] = to_string(value.phase);
  object["connected"] = value.connected;
  object["spare"] = value.spare;
  object["since_heard_ms"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(value.since_heard).count();
  return object;
}

json to_json(const core::run_view& value) {
  json object;
  object["run_id"] = value.run_id;
  object["instance"] = to_string(session_id{0, value.instance}).substr(16);
  object["phase"] = to_string(value.phase);
  object["why"] = value.why;
  object["round"] = value.round;
  object["restarts_used"] = value.restarts_used;
  object["node_losses"] = value.node_losses;
  object["world_size"] = value.world_size;
  object["master_address"] = value.master_address;
  object["master_port"] = value.master_port;
  if (value.exit_code) object["exit_code"] = *value.exit_code;
  if (value.first_cause) object["first_cause"] = to_json(*value.first_cause);
  if (value.settings) {
    json settings = json::object();
    for (const auto& [name, text] : to_named_values(*value.settings))
      settings[name] = text;
    object["settings"] = std::move(settings);
  }
  json members = json::array();
  for (const core::member_view& member : value.members)
    members.push_back(to_json(member));
  object["members"] = std::move(members);
  return object;
}

response answer_to(const request& asked, const runs_function& runs) {
  response answer(http::status::ok, asked.version());
  answer.set(http::field::server, "ddprun/" + std::string(version));
  answer.set(http::field::content_type, "text/plain; charset=utf-8");
  answer.keep_alive(asked.keep_alive());
  const std::string_view target(asked.target().data(), asked.target().size());
  const std::string_view path = target.substr(0, target.find('?'));
  const bool is_known = path == "/healthz" || path == "/api/v1/runs";
  if (!is_known) {
    answer.result(http::status::not_found);
    answer.body() = "not found; there are /healthz and /api/v1/runs\n";
  } else if (asked.method() != http::verb::get && asked.method() != http::verb::head) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET, HEAD");
    answer.body() = "only GET and HEAD are served here\n";
  } else if (path == "/healthz") {
    answer.body() = "ok\n";
  } else {
    answer.set(http::field::content_type, "application/json");
    answer.body() = runs_json(runs());
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

asio::awaitable<void> session(net::tcp::socket socket, runs_function runs) {
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
    const response answer =
        read_error ? answer_to_garbage(read_error) : answer_to(parser.get(), runs);
    goes_on = answer.keep_alive();
    stream.expires_after(request_limit);
    const auto [write_error, written] = co_await http::async_write(stream, answer, quietly);
    if (write_error) co_return;
  }
  error_code ignored;
  stream.socket().shutdown(net::tcp::socket::shutdown_send, ignored);
}

}  // namespace

std::string runs_json(const std::vector<core::run_view>& runs) {
  json object;
  object["version"] = version;
  json list = json::array();
  for (const core::run_view& run : runs)
    list.push_back(to_json(run));
  object["runs"] = std::move(list);
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

void serve_http(net::tcp::socket socket, runs_function runs, std::function<void()> ended) {
  const net::executor where = socket.get_executor();
  asio::co_spawn(where, session(std::move(socket), std::move(runs)),
                 [ended = std::move(ended)](const std::exception_ptr&) {
                   // An exception (no memory) ends this one session.
                   ended();
                 });
}

}  // namespace ddprun::server
