#include "rendezvous/server/server.hpp"

#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/net/threads.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::server {
namespace {

// Descriptors that are no connections: standard streams, the loop's own, the listener, a file.
constexpr std::size_t descriptors_reserved = 32;
// Of the store's memory, this part is for requests and replies that are under way.
constexpr std::size_t store_buffer_share = 4;
// They are for a few people and probes; an answer takes time from the rounds.
constexpr std::size_t http_sessions_max = 64;

}  // namespace

server::server(net::executor where, server_options options)
    : options_(std::move(options)),
      listener_(where),
      door_({.agent = [this](net::tcp::socket socket) { service_->accept(std::move(socket)); },
             .tcpstore = [this](net::tcp::socket socket) { accept_store(std::move(socket)); },
             .http = [this](net::tcp::socket socket) { accept_http(std::move(socket)); },
             .log = options_.service.log},
            options_.service.hello_limit) {
  if (options_.connections_max == 0) {
    const std::size_t limit = net::descriptor_limit();
    options_.connections_max = limit > descriptors_reserved ? limit - descriptors_reserved : 1;
  }
  // Some room is left for those who look at a daemon that is full of agents.
  options_.service.agents_max =
      std::min(options_.service.agents_max,
               options_.connections_max - std::min<std::size_t>(16, options_.connections_max / 4));
  service_ = std::make_shared<service>(where, options_.service);
  // Of one sum, which is what a person gives.
  store::keyspace_options keys;
  keys.limits = options_.store_limits;
  keys.buffered_bytes_max = keys.limits.bytes_max / store_buffer_share;
  keys.limits.bytes_max -= keys.buffered_bytes_max;
  if (options_.service.log) {
    keys.log = [where, log = options_.service.log](note_level level, const std::string& text) {
      boost::asio::post(where, [log, level, text] { log(level, text); });
    };
  }
  space_ = std::make_shared<store::keyspace>(std::move(keys));
}

result<std::uint16_t> server::start(std::string& problem) {
  const auto port = listener_.open(options_.bind_address, options_.port, problem);
  if (!port) return port;
  net::listener_handlers handlers;
  handlers.on_accept = [this](net::tcp::socket socket) { accept(std::move(socket)); };
  handlers.on_trouble = [this](const std::string& text) { log(note_level::error, text); };
  listener_.start(std::move(handlers));
  return port;
}

void server::accept(net::tcp::socket socket) {
  service_->note_input();
  const std::size_t open = connection_count();
  if (open < options_.connections_max) {
    return door_.accept(std::move(socket));
  }
  // Closed, not kept: whoever it is may come again.
  const auto line = turned_away_.admit("turning connections away: " + std::to_string(open) +
                                           " are open, the most that the limit of open files "
                                           "(ulimit -n) leaves room for",
                                       std::chrono::steady_clock::now());
  if (line) log(note_level::error, *line);
}

void server::accept_store(net::tcp::socket socket) {
  const error_code error = store_.serve(std::move(socket), space_);
  if (!error) return;
  const auto line =
      store_refusals_.admit("closed a TCPStore client: " + net::thread_problem("its store", error),
                            std::chrono::steady_clock::now());
  if (line) log(note_level::error, *line);
}

void server::accept_http(net::tcp::socket socket) {
  if (*http_count_ >= http_sessions_max) return;
  ++*http_count_;
  const std::weak_ptr<service> weak = service_;
  http_views views;
  views.runs = [weak](std::size_t first) {
    const auto held = weak.lock();
    return held ? held->runs(first) : runs_page();
  };
  views.run = [weak](std::string_view id, std::size_t first, std::size_t most) {
    const auto held = weak.lock();
    return held ? held->run(id, first, most) : std::nullopt;
  };
  serve_http(std::move(socket), std::move(views), http_pace_, [count = http_count_] { --*count; });
}

std::size_t server::connection_count() const {
  return door_.waiting() + service_->agent_count() + space_->session_count() + *http_count_;
}

void server::stop() {
  listener_.close();
  door_.close();
  service_->stop();
  store_.stop();
}

void server::log(note_level level, const std::string& text) const {
  if (options_.service.log) options_.service.log(level, text);
}

}  // namespace ddprun::server
