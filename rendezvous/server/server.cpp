#include "rendezvous/server/server.hpp"

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/net/descriptor_limit.hpp"
#include "rendezvous/net/resolve.hpp"
#include "rendezvous/net/threads.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace ddprun::server {
namespace {

// Descriptors that are not connections: standard streams, the loop's own, the listener, a file.
constexpr std::size_t descriptors_reserved = 32;
// The part of the store's memory that is reserved for requests and replies in progress.
constexpr std::size_t store_buffer_share = 4;
// How many connections may be on their way to the store's thread at once to replace others there.
constexpr std::size_t store_exchanges_max = 4;

std::size_t connections_of(const server_options& options) {
  if (options.connections_max != 0) return options.connections_max;
  const std::size_t limit = net::descriptor_limit();
  return limit > descriptors_reserved ? limit - descriptors_reserved : 1;
}

// Many hosts have no IPv6, so its loopback address may be missing.
bool is_missing_loopback(const std::string& address, const error_code& error) {
  const auto numeric = net::numeric_address(address);
  return numeric && numeric->is_loopback() &&
         (error == boost::system::errc::address_not_available ||
          error == boost::system::errc::address_family_not_supported);
}

}  // namespace

server::server(net::executor where, server_options options)
    : options_(std::move(options)),
      shares_(connections_of(options_)),
      executor_(where),
      door_({.agent = [this](net::tcp::socket socket) { shell_->accept(std::move(socket)); },
             .tether = options_.tether,
             .tcpstore = options_.tcpstore
                             ? options_.tcpstore
                             : [this](net::tcp::socket socket) { accept_store(std::move(socket)); },
             .http = [this](net::tcp::socket socket) { accept_http(std::move(socket)); },
             .log = options_.daemon.log},
            options_.daemon.hello_limit, newcomers_) {
  options_.daemon.newcomers = newcomers_;
  options_.daemon.has_room = [this] { return has_room(peer_kind::agent); };
  shell_ = std::make_shared<daemon_shell>(where, options_.daemon);
  // The user gives one limit, which is split between values and buffers.
  store::keyspace_options keys;
  keys.limits = options_.store_limits;
  keys.buffered_bytes_max = keys.limits.bytes_max / store_buffer_share;
  keys.limits.bytes_max -= keys.buffered_bytes_max;
  if (options_.daemon.log) {
    keys.log = [where, log = options_.daemon.log](note_level level, const std::string& text) {
      // The keyspace calls this on the store's thread.
      boost::asio::post(where, [log, level, text] { log(level, text); });
    };
  }
  space_ = std::make_shared<store::keyspace>(std::move(keys));
}

// Returns the port of the first socket.
result<std::uint16_t> server::adopt_sockets(std::string& problem) {
  std::uint16_t first = 0;
  for (const int descriptor : options_.open_sockets) {
    net::listener& next = listeners_.emplace_back(executor_, options_.keep_alive);
    const auto port = next.adopt(descriptor, problem);
    if (!port) return port;
    if (first == 0) first = *port;
  }
  return first;
}

result<std::uint16_t> server::listen(std::string& problem) {
  if (!options_.open_sockets.empty()) return adopt_sockets(problem);
  net::listener& first = listeners_.emplace_back(executor_, options_.keep_alive);
  const auto port = first.open(options_.bind_address, options_.port, problem);
  if (!port) return port;
  for (const std::string& address : options_.more_addresses) {
    net::listener& next = listeners_.emplace_back(executor_, options_.keep_alive);
    const auto opened = next.open(address, *port, problem);
    if (opened) continue;
    if (!is_missing_loopback(address, opened.error())) return opened;
    // This host has no such loopback address: continue without it.
    listeners_.pop_back();
    problem.clear();
  }
  return port;
}

result<std::uint16_t> server::start(std::string& problem) {
  const auto port = listen(problem);
  if (!port) {
    listeners_.clear();
    return port;
  }
  // The port comes first: of several daemons that start at once only one gets as far as the
  // journal.
  const journal::open_failure failure = shell_->open_journal();
  // Two daemons with one journal would overwrite each other's records, so the user who starts the
  // second one must be told.
  if (failure.is_taken && options_.journal_is_ours) {
    problem = failure.problem;
    stop();
    return system_error(EBUSY);
  }
  if (!failure.problem.empty()) shell_->go_on_without_journal(failure.problem);
  serve();
  return port;
}

error_code server::start_in_background(std::string& problem, serving_handler serving) {
  const auto port = listen(problem);
  if (!port) {
    listeners_.clear();
    return port.error();
  }
  shell_->open_journal_in_background(
      [this, port = *port, serving = std::move(serving)](const journal::open_failure& failure) {
        if (!failure.problem.empty()) shell_->go_on_without_journal(failure.problem);
        serve();
        serving(port);
      });
  return {};
}

void server::serve() {
  net::listener_handlers handlers;
  handlers.on_accept = [this](net::tcp::socket socket) { accept(std::move(socket)); };
  handlers.on_trouble = [this](const std::string& text) { log(note_level::error, text); };
  for (net::listener& each : listeners_)
    each.start(handlers);
}

void server::accept(net::tcp::socket socket) {
  shell_->note_input();
  // A newcomer whose first bytes have arrived is passed on instead of closed, and that also makes
  // room.
  while (!has_room(peer_kind::newcomer)) {
    turn_away(peer_kind::newcomer, "the oldest without a complete hello");
    if (!newcomers_->let_oldest_go()) return;
  }
  door_.accept(std::move(socket));
}

void server::accept_store(net::tcp::socket socket) {
  const bool is_full = !has_room(peer_kind::tcpstore);
  if (is_full) {
    turn_away(peer_kind::tcpstore,
              "TCPStore: the oldest that has asked for nothing, otherwise the newest");
    // The connection that is replaced is closed on the store's thread, a moment later. Until then a
    // flood of newcomers must not pile up there.
    if (space_->arriving_count() >= store_exchanges_max) return;
  }
  const error_code error = store_.serve(std::move(socket), space_, is_full);
  if (!error) return;
  const auto line =
      store_refusals_.admit("closed a TCPStore client: " + net::thread_problem("its store", error),
                            std::chrono::steady_clock::now());
  if (line) log(note_level::error, *line);
}

void server::accept_http(net::tcp::socket socket) {
  if (!has_room(peer_kind::http)) {
    turn_away(peer_kind::http, "HTTP: the one that has made no progress for the longest time");
    readers_->let_oldest_go();
  }
  const std::weak_ptr<daemon_shell> alive = shell_;
  http_views views;
  views.runs =
      while_alive(alive, [&shell = *shell_](std::size_t first) { return shell.runs(first); });
  views.run = while_alive(
      alive, [&shell = *shell_](std::string_view id, std::size_t first, std::size_t most) {
        return shell.run(id, first, most);
      });
  views.problem = while_alive(alive, [&shell = *shell_] { return shell.journal_problem(); });
  serve_http(std::move(socket), std::move(views), http_pace_, readers_);
}

// newcomers_ holds the router's guests, and agents that have not said hello or are leaving.
peer_counts server::counts() const {
  return {newcomers_->size(), shell_->joined_count(), space_->connection_count(), readers_->size()};
}

void server::turn_away(peer_kind kind, const std::string& who) {
  const peer_counts now = counts();
  std::size_t all = 0;
  for (const std::size_t each : now)
    all += each;
  const auto line = turned_away_[static_cast<std::size_t>(kind)].admit(
      "the port is full: one of " + std::to_string(now[static_cast<std::size_t>(kind)]) +
          " connections is closed (" + who + "); " + std::to_string(all) +
          " are open, of at most " + std::to_string(shares_.total()) +
          ": raise the limit of open files (ulimit -n), or keep strangers from this "
          "port",
      std::chrono::steady_clock::now());
  if (line) log(note_level::warning, *line);
}

void server::stop() {
  listeners_.clear();
  door_.close();
  shell_->stop();
  store_.stop();
}

void server::log(note_level level, const std::string& text) const {
  if (options_.daemon.log) options_.daemon.log(level, text);
}

}  // namespace ddprun::server
