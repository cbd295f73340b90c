#include "rendezvous/client/line_client.hpp"

#include "rendezvous/base/utf8.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace ddprun::client {
namespace {

constexpr std::size_t quoted_bytes_max = 40;

// The beginning of an unknown peer's bytes, made safe for a terminal.
std::string quoted(std::string_view bytes) {
  std::string text = to_valid_utf8(bytes.substr(0, quoted_bytes_max));
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == '\x7F') byte = '.';
  }
  return '"' + text + '"';
}

}  // namespace

line_client::line_client(net::executor where, handlers told, client_limits limits)
    : executor_(where),
      handlers_(std::make_shared<const line_client::handlers>(std::move(told))),
      limits_(limits),
      dialer_(where),
      reply_timer_(where) {}

void line_client::dial(std::string host, std::uint16_t port, duration delay) {
  drop();
  answered_ = false;
  peer_ = net::endpoint_text(host, port);
  dialer_.start(std::move(host), port, delay, limits_.dial,
                [this](net::dial_result result) { dialed(std::move(result)); });
}

void line_client::dialed(net::dial_result result) {
  // A copy, because the owner may destroy this client inside a callback.
  const auto told = handlers_;
  if (!result.socket) return told->disconnected(std::move(result.text));
  endpoint_ = result.endpoint;
  const std::string name = net::endpoint_text(result.endpoint);
  if (name != peer_) peer_ += " (" + name + ")";
  net::line_handlers events;
  events.on_line = [this](std::string_view line) { take_line(line); };
  events.on_end = [this](error_code error) {
    const std::string said(connection_->unfinished_line());
    // Our peers send objects, so any other first byte comes from another program.
    const bool stranger = !answered_ && !said.empty() && said.front() != '{';
    if (stranger) return lost(stranger_text(said));
    lost(answered_ ? error.message()
                   : error.message() +
                         " before it answered; is a ddprun daemon of this version "
                         "listening there?");
  };
  connection_ = std::make_shared<net::line_connection>(std::move(*result.socket), std::move(events),
                                                       limits_.stall);
  wait_for_first_reply();
  connection_->start();
  told->connected(connection_->local_address());
}

void line_client::wait_for_first_reply() {
  reply_timer_.expires_after(limits_.first_reply);
  alive_.begin_anew();
  reply_timer_.async_wait(while_alive(alive_.watch(), [this](error_code error) {
    if (error || answered_ || !connection_) return;
    const std::string said(connection_->unfinished_line());
    lost(said.empty() ? "connected, but no answer within " + to_text(limits_.first_reply)
                      : stranger_text(said));
  }));
}

void line_client::take_line(std::string_view line) {
  std::string problem;
  const auto alive = alive_.watch();
  const auto told = handlers_;
  const bool understood = told->line(line, problem);
  // The callback may have destroyed or disconnected this client.
  if (alive.expired() || !connection_) return;
  if (understood) {
    if (!answered_) reply_timer_.cancel();
    answered_ = true;
    return;
  }
  lost(line.starts_with('{') ? problem : stranger_text(line));
}

std::string line_client::stranger_text(std::string_view said) const {
  return "something else listens here: it says " + quoted(said);
}

void line_client::lost(const std::string& what) {
  const auto told = handlers_;
  // A name may have several addresses, and the right peer may be at another one by now.
  if (!answered_) dialer_.distrust(endpoint_);
  drop();
  told->disconnected(peer_ + ": " + what);
}

void line_client::send(std::size_t kind, std::string line) {
  if (!connection_) return;
  connection_->send(kind, std::make_shared<const std::string>(std::move(line)));
}

void line_client::drop() {
  dialer_.cancel();
  reply_timer_.cancel();
  alive_.end();
  if (const auto connection = std::exchange(connection_, nullptr)) connection->close();
}

void line_client::finish(duration limit, std::function<void()> done) {
  dialer_.cancel();
  reply_timer_.cancel();
  alive_.end();
  const auto connection = std::exchange(connection_, nullptr);
  if (connection) return connection->finish(limit, std::move(done));
  boost::asio::post(executor_, std::move(done));
}

}  // namespace ddprun::client
