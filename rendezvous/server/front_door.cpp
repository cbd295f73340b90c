#include "rendezvous/server/front_door.hpp"

#include "rendezvous/protocol/sniff.hpp"

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <utility>

namespace ddprun::server {

using net::tcp;
using protocol::wire;

struct front_door::guest {
  explicit guest(tcp::socket accepted)
      : socket(std::move(accepted)), timer(socket.get_executor()) {}
  tcp::socket socket;
  net::asio::steady_timer timer;
  time_point since = std::chrono::steady_clock::now();
  waiting_room::ticket place = 0;
  bool gone = false;  // handed on, dismissed, or the door is closed
};

front_door::front_door(front_door_handlers handlers, duration first_byte_limit,
                       std::shared_ptr<waiting_room> room)
    : handlers_(std::move(handlers)), first_byte_limit_(first_byte_limit), room_(std::move(room)) {}

front_door::~front_door() {
  close();
}

void front_door::accept(tcp::socket socket) {
  const std::uint64_t id = ++last_id_;
  const auto who = std::make_shared<guest>(std::move(socket));
  guests_.emplace(id, who);
  who->place = room_->enter([this, id] { let_go(id); });
  error_code ignored;
  who->socket.non_blocking(true, ignored);
  who->timer.expires_after(first_byte_limit_);
  who->timer.async_wait([this, id, who](error_code error) {
    if (error || who->gone) return;
    dismiss(id, note_level::info, "said nothing within " + to_text(first_byte_limit_));
  });
  who->socket.async_wait(tcp::socket::wait_read, [this, id, who](error_code) {
    if (!who->gone) look(id);
  });
}

// Whether it has spoken meanwhile may not have been looked at yet.
void front_door::let_go(std::uint64_t id) {
  tcp::socket& socket = guests_.at(id)->socket;
  char first = 0;
  error_code error;
  const std::size_t size =
      socket.receive(net::asio::buffer(&first, 1), tcp::socket::message_peek, error);
  if (!error && size != 0) return look(id);
  dismiss(id, note_level::debug, "was the longest silent of many");
}

void front_door::look(std::uint64_t id) {
  guest& who = *guests_.at(id);
  std::array<char, protocol::sniff_bytes_max> first{};
  error_code error;
  const std::size_t size =
      who.socket.receive(net::asio::buffer(first), tcp::socket::message_peek, error);
  if (error || size == 0) return dismiss(id, note_level::debug, "left without a word");
  wire kind = protocol::sniff({first.data(), size});
  // Only HTTP can begin with bytes that do not decide yet, and its own reader takes the rest.
  if (kind == wire::undecided) kind = wire::http;
  const front_door_handlers::take* take = nullptr;
  if (kind == wire::agent) take = &handlers_.agent;
  if (kind == wire::tcpstore) take = &handlers_.tcpstore;
  if (kind == wire::http) take = &handlers_.http;
  if (kind == wire::tls) {
    return dismiss(id, note_level::info, "speaks TLS, which this port does not");
  }
  if (take == nullptr || !*take) {
    return dismiss(
        id, note_level::info,
        "speaks a protocol that this port does not serve (" + std::string(to_string(kind)) + ")");
  }
  const auto held = guests_.at(id);
  held->gone = true;
  held->timer.cancel();
  room_->leave(held->place);
  guests_.erase(id);
  (*take)(std::move(held->socket));
}

void front_door::dismiss(std::uint64_t id, note_level level, const std::string& why) {
  const auto who = guests_.at(id);
  who->gone = true;
  who->timer.cancel();
  room_->leave(who->place);
  guests_.erase(id);
  error_code error;
  const auto peer = who->socket.remote_endpoint(error);
  const std::string name = error ? "a peer" : net::endpoint_text(peer);
  who->socket.close(error);
  // A health check that comes and goes each second, for the debug log only, hides no stranger.
  log_limit& limit = level == note_level::debug ? mute_ : strangers_;
  const auto line = limit.admit("closed " + name + ": it " + why, std::chrono::steady_clock::now());
  if (line && handlers_.log) handlers_.log(level, *line);
}

time_point front_door::oldest() const {
  return guests_.empty() ? time_point::max() : guests_.begin()->second->since;
}

void front_door::close_oldest() {
  if (guests_.empty()) return;
  dismiss(guests_.begin()->first, note_level::info, "said nothing, and others want its place");
}

void front_door::close() {
  for (const auto& [id, who] : std::exchange(guests_, {})) {
    who->gone = true;
    who->timer.cancel();
    room_->leave(who->place);
    error_code ignored;
    who->socket.close(ignored);
  }
}

}  // namespace ddprun::server
