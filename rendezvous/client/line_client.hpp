// A line client dials a peer and then exchanges lines with it: the common part of the session to
// the daemon and the tether to the leader.
//
// Its messages name the peer and the system's error. A peer that does not answer like ddprun is
// distinguished from one that has gone: "10.0.0.1:29400: something else listens here: it says
// \"SSH-2.0-OpenSSH_9.2\"".
//
// Thread rule: one thread, that of the executor. Callbacks are called from the loop, never from
// inside a call, and not after `drop` or destruction. It may be destroyed inside a callback.
#pragma once

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/net/dialer.hpp"
#include "rendezvous/net/line_connection.hpp"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>

namespace ddprun::client {

struct client_limits {
  duration dial = std::chrono::seconds(5);         // to look up and connect
  duration first_reply = std::chrono::seconds(5);  // from connecting to the first line
  duration stall = std::chrono::seconds(10);       // how long the peer may read nothing
};

class line_client {
 public:
  struct handlers {
    std::function<void(std::string own_address)> connected;
    // Returns false to end the connection, with `problem` as the reason, or with the beginning of
    // the line if it is not ours.
    std::function<bool(std::string_view line, std::string& problem)> line;
    std::function<void(std::string text)> disconnected;
  };

  line_client(net::executor where, handlers told, client_limits limits);
  ~line_client() { drop(); }
  line_client(const line_client&) = delete;
  line_client& operator=(const line_client&) = delete;

  void dial(std::string host, std::uint16_t port, duration delay);
  void send(std::size_t kind, std::string line);
  bool is_connected() const { return connection_ != nullptr; }
  // The peer's numeric address; empty without a connection.
  std::string peer_address() const { return connection_ ? connection_->peer_address() : ""; }

  // Ends the connection at once; `disconnected` is not called.
  void drop();

  // Sends what is queued and closes in order, within `limit`; then calls `done`.
  void finish(duration limit, std::function<void()> done);

 private:
  void dialed(net::dial_result result);
  void wait_for_first_reply();
  void take_line(std::string_view line);
  void lost(const std::string& what);
  std::string stranger_text(std::string_view said) const;

  net::executor executor_;
  std::shared_ptr<const handlers> handlers_;  // outlives a client that is destroyed in a callback
  client_limits limits_;
  net::dialer dialer_;
  boost::asio::steady_timer reply_timer_;
  std::shared_ptr<net::line_connection> connection_;
  lifetime alive_;               // of the current dial
  net::tcp::endpoint endpoint_;  // of the current connection
  std::string peer_;             // "10.0.0.1:29400"
  bool answered_ = false;        // the peer has sent a valid line
};

}  // namespace ddprun::client
