#include "launcher/hosts/kubernetes/trainer_post.hpp"

#include "launcher/base/node_files.hpp"
#include "launcher/base/text.hpp"
#include "launcher/hosts/kubernetes/tls_client.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/dialer.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <functional>
#include <sstream>
#include <sys/socket.h>

namespace ddprun::launcher::kubernetes {
namespace {

namespace http = boost::beast::http;
using std::chrono::steady_clock;

constexpr std::chrono::seconds dial_limit{5};
constexpr std::chrono::seconds answer_limit{5};
constexpr std::size_t answer_bytes_max = 64 * 1024;

struct place {
  bool is_secure = false;
  std::string host;
  std::uint16_t port = 0;
  std::string authority;  // "host:port" as written
  std::string path;
};

std::optional<place> read_url(std::string_view url) {
  place found;
  found.is_secure = url.starts_with("https://");
  if (!found.is_secure && !url.starts_with("http://")) return std::nullopt;
  url.remove_prefix(url.find("://") + 3);
  const std::size_t slash = url.find('/');
  found.path = slash == url.npos ? "/" : std::string(url.substr(slash));
  std::string_view host = url.substr(0, slash);
  found.authority = host;
  found.port = found.is_secure ? 443 : 80;
  const std::size_t colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) {
    const auto port = whole_number<decltype(found.port)>(host.substr(colon + 1));
    if (!port) return std::nullopt;
    found.port = *port;
    host = host.substr(0, colon);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  found.host = host;
  if (host.empty()) return std::nullopt;
  return found;
}

// Returns a connected, blocking socket with limits for each step.
unique_fd dial(const place& where, std::string& problem) {
  boost::asio::io_context loop(1);
  net::dialer dialer(loop.get_executor());
  std::optional<net::dial_result> answer;
  dialer.start(where.host, where.port, {}, dial_limit,
               [&](net::dial_result result) { answer = std::move(result); });
  while (!answer && loop.run_one() != 0) {
  }
  if (!answer || !answer->socket) {
    problem = answer ? answer->text : "not reached";
    return {};
  }
  error_code failed;
  unique_fd socket(answer->socket->release(failed));
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  const timeval limit{answer_limit.count(), 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return socket;
}

std::string request_text(const place& where, const std::string& token, const std::string& body) {
  http::request<http::string_body> request(http::verb::post, where.path, 11);
  request.set(http::field::host, where.authority);
  request.set(http::field::user_agent, "ddprun");
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
  request.body() = body;
  request.prepare_payload();
  std::ostringstream text;
  text << request;
  return text.str();
}

using writer = std::function<bool(std::string_view bytes)>;
using reader = std::function<std::size_t(char* buffer, std::size_t size)>;

// The response's header is enough.
std::string converse(const std::string& request, const writer& write, const reader& read) {
  if (!write(request)) return "it does not accept the request";
  http::response_parser<http::string_body> parser;
  std::string received;
  char buffer[4096];
  const time_point until = steady_clock::now() + answer_limit;
  while (!parser.is_header_done()) {
    const std::size_t got = read(buffer, sizeof buffer);
    if (got == 0 || received.size() > answer_bytes_max || steady_clock::now() > until)
      return "no answer";
    received.append(buffer, got);
    error_code error;
    received.erase(0, parser.put(boost::asio::buffer(received), error));
    if (error && error != http::error::need_more) return "no HTTP: " + error.message();
  }
  const auto& answer = parser.get();
  if (answer.result_int() / 100 == 2) return {};
  return "HTTP " + std::to_string(answer.result_int()) + " " +
         std::string(answer.reason().data(), answer.reason().size());
}

}  // namespace

std::optional<trainer_server> find_trainer_server(const environment_map& environment) {
  trainer_server server;
  server.url = variable_or_empty(environment, "KUBEFLOW_TRAINER_SERVER_URL");
  server.authority_file = variable_or_empty(environment, "KUBEFLOW_TRAINER_SERVER_CA_CERT");
  server.token_file = variable_or_empty(environment, "KUBEFLOW_TRAINER_SERVER_TOKEN");
  if (server.url.empty() || variable_or_empty(environment, "DDPRUN_TRAINER_STATUS") == "off")
    return std::nullopt;
  return server;
}

std::string post_status(const trainer_server& server, const std::string& body) {
  const std::string name = server.url + ": ";
  const auto where = read_url(server.url);
  if (!where) return "KUBEFLOW_TRAINER_SERVER_URL=" + server.url + ": not an http or https URL";
  std::string token;
  if (!server.token_file.empty()) {
    const auto line = first_line(server.token_file);
    if (!line) return server.token_file + ": the token cannot be read";
    token = trimmed(*line);
  }
  std::string problem;
  const unique_fd socket = dial(*where, problem);
  if (!problem.empty()) return name + problem;
  const std::string request = request_text(*where, token, body);
  if (where->is_secure) {
    const auto tls = tls_client::open(socket.get(), where->host, server.authority_file, problem);
    if (!tls) return name + problem;
    problem = converse(
        request, [&](std::string_view bytes) { return tls->write(bytes); },
        [&](char* buffer, std::size_t size) { return tls->read(buffer, size); });
  } else {
    problem = converse(
        request,
        [&](std::string_view bytes) {
          return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                 static_cast<ssize_t>(bytes.size());
        },
        [&](char* buffer, std::size_t size) {
          return static_cast<std::size_t>(
              std::max<ssize_t>(0, ::recv(socket.get(), buffer, size, 0)));
        });
  }
  return problem.empty() ? "" : name + problem;
}

}  // namespace ddprun::launcher::kubernetes
