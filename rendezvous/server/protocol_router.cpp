#include "rendezvous/server/protocol_router.hpp"

#include "rendezvous/protocol/sniff.hpp"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <sys/socket.h>
#include <utility>

namespace ddprun::server {

using net::tcp;
using protocol::wire;

struct protocol_router::guest {
  explicit guest(tcp::socket accepted)
      : socket(std::move(accepted)), timer(socket.get_executor()) {}
  tcp::socket socket;
  net::asio::steady_timer timer;
  time_point since = std::chrono::steady_clock::now();
  evictable_peers::ticket place = 0;
  bool is_asked_for_more = false;
  bool gone = false;  // handed over, dismissed, or closed with the router
};

protocol_router::protocol_router(protocol_router_handlers handlers, duration first_byte_limit,
                                 std::shared_ptr<evictable_peers> room)
    : handlers_(std::move(handlers)), first_byte_limit_(first_byte_limit), room_(std::move(room)) {}

protocol_router::~protocol_router() {
  close();
}

void protocol_router::accept(tcp::socket socket) {
  const std::uint64_t id = ++last_id_;
  const auto who = std::make_shared<guest>(std::move(socket));
  guests_.emplace(id, who);
  try {
    await_first_byte(who, id);
  } catch (const std::bad_alloc&) {
    drop(id);
    throw;
  }
}

void protocol_router::await_first_byte(const std::shared_ptr<guest>& who, std::uint64_t id) {
  who->place = room_->enter([this, id] { let_go(id); });
  error_code ignored;
  who->socket.non_blocking(true, ignored);
  who->timer.expires_after(first_byte_limit_);
  who->timer.async_wait([this, id, who](error_code error) {
    if (error || who->gone) return;
    dismiss(id, note_level::info, "sent nothing within " + to_text(first_byte_limit_));
  });
  await_input(who, id);
}

void protocol_router::await_input(const std::shared_ptr<guest>& who, std::uint64_t id) {
  who->socket.async_wait(tcp::socket::wait_read, [this, id, who](error_code) {
    if (!who->gone) look(id);
  });
}

std::shared_ptr<protocol_router::guest> protocol_router::take_out(std::uint64_t id) {
  auto who = guests_.at(id);
  who->gone = true;
  who->timer.cancel();
  room_->leave(who->place);
  guests_.erase(id);
  return who;
}

// Closes a guest for which nothing is pending any more: it would never be answered or closed.
void protocol_router::drop(std::uint64_t id) {
  if (guests_.count(id) == 0) return;
  error_code ignored;
  take_out(id)->socket.close(ignored);
}

// The guest may have sent its first bytes without the loop having seen them yet, so look before
// closing.
void protocol_router::let_go(std::uint64_t id) {
  tcp::socket& socket = guests_.at(id)->socket;
  char first = 0;
  error_code error;
  const std::size_t size =
      socket.receive(net::asio::buffer(&first, 1), tcp::socket::message_peek, error);
  if (!error && size != 0) return look(id);
  dismiss(id, note_level::debug, "had been silent the longest of many");
}

void protocol_router::look(std::uint64_t id) {
  const protocol_router_handlers::take* take = nullptr;
  try {
    take = choose(id);
  } catch (const std::bad_alloc&) {
    drop(id);
    throw;
  }
  if (take == nullptr) return;
  // Taken out before the handler runs, because that may close this router.
  const auto who = take_out(id);
  (*take)(std::move(who->socket));
}

// Null: the guest was dismissed, or has to send more.
const protocol_router_handlers::take* protocol_router::choose(std::uint64_t id) {
  guest& who = *guests_.at(id);
  // The bytes are only peeked at: the handler reads the socket from the start.
  std::array<char, std::max(protocol::sniff_bytes_max, protocol::agent_sniff_bytes)> first{};
  error_code error;
  const std::size_t size =
      who.socket.receive(net::asio::buffer(first), tcp::socket::message_peek, error);
  if (error || size == 0) {
    dismiss(id, note_level::debug, "left without sending anything");
    return nullptr;
  }
  const std::string_view words(first.data(), size);
  wire kind = protocol::sniff(words.substr(0, protocol::sniff_bytes_max));
  // Only HTTP can begin with bytes that do not decide yet, and its parser handles the rest.
  if (kind == wire::undecided) kind = wire::http;
  if (kind == wire::tls) {
    dismiss(id, note_level::info, "speaks TLS, which this port does not");
    return nullptr;
  }
  if (kind == wire::agent && is_half_a_word(who, words)) {
    await_input(guests_.at(id), id);
    return nullptr;
  }
  const protocol_router_handlers::take* const take = whose(kind, words);
  if (take != nullptr && *take) return take;
  dismiss(id, note_level::info,
          "speaks a protocol that this port does not serve (" + std::string(to_string(kind)) + ")");
  return nullptr;
}

const protocol_router_handlers::take* protocol_router::whose(wire kind,
                                                             std::string_view first) const {
  const auto line = protocol::sniff_agent_line(first);
  if (kind == wire::agent && handlers_.tether && line == protocol::agent_line::tether)
    return &handlers_.tether;
  if (kind == wire::agent) return &handlers_.agent;
  if (kind == wire::tcpstore) return &handlers_.tcpstore;
  return kind == wire::http ? &handlers_.http : nullptr;
}

// True if the agent line is too short to tell a tether from others, and that matters here.
// SO_RCVLOWAT makes the kernel wake us when more has arrived or the peer is gone; it is reset
// before the handler reads the socket.
bool protocol_router::is_half_a_word(guest& who, std::string_view first) {
  const bool is_half = handlers_.tether && !who.is_asked_for_more &&
                       protocol::sniff_agent_line(first) == protocol::agent_line::undecided;
  if (!is_half && !who.is_asked_for_more) return false;
  const int bytes = is_half ? static_cast<int>(protocol::agent_sniff_bytes) : 1;
  ::setsockopt(who.socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
  who.is_asked_for_more = is_half;
  return is_half;
}

void protocol_router::dismiss(std::uint64_t id, note_level level, const std::string& why) {
  const auto who = take_out(id);
  error_code error;
  const auto peer = who->socket.remote_endpoint(error);
  const std::string name = error ? "a peer" : net::endpoint_text(peer);
  who->socket.close(error);
  // Debug lines have a limit of their own, so that a frequent health check cannot hide an unknown
  // peer.
  log_limit& limit = level == note_level::debug ? mute_ : strangers_;
  const auto line = limit.admit("closed " + name + ": it " + why, std::chrono::steady_clock::now());
  if (line && handlers_.log) handlers_.log(level, *line);
}

time_point protocol_router::oldest() const {
  return guests_.empty() ? time_point::max() : guests_.begin()->second->since;
}

void protocol_router::close_oldest() {
  if (guests_.empty()) return;
  dismiss(guests_.begin()->first, note_level::info,
          "sent nothing, and another connection needed the room");
}

void protocol_router::close() {
  while (!guests_.empty())
    drop(guests_.begin()->first);
}

}  // namespace ddprun::server
