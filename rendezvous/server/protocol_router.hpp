// A protocol router lets several protocols share one port: it peeks at the first bytes of accepted
// connections and passes each to the handler of its protocol.
//
// It is used by the daemon (agents, TCPStore, HTTP) and by a round's service (tethers, TCPStore). A
// protocol without a handler counts as unknown. Unknown peers, and peers that send nothing within
// the limit, are closed without an answer; if there are many at once, only some are logged. Until
// it has sent something, each peer may be evicted (evictable_peers).
//
// Thread rule: one thread, that of the sockets' executor. Handlers are called from the loop, and
// not after `close` or destruction. Destroy it before its io_context.
#pragma once

#include "rendezvous/base/log_limit.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/net/net_types.hpp"
#include "rendezvous/protocol/sniff.hpp"
#include "rendezvous/server/evictable_peers.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::server {

using log_function = std::function<void(note_level level, const std::string& text)>;

struct protocol_router_handlers {
  using take = std::function<void(net::tcp::socket socket)>;
  take agent;
  take tether;  // empty: `agent` gets tethers too
  take tcpstore;
  take http;
  log_function log;  // may be empty
};

class protocol_router {
 public:
  explicit protocol_router(
      protocol_router_handlers handlers, duration first_byte_limit = std::chrono::seconds(10),
      std::shared_ptr<evictable_peers> room = std::make_shared<evictable_peers>());
  ~protocol_router();
  protocol_router(const protocol_router&) = delete;
  protocol_router& operator=(const protocol_router&) = delete;

  void accept(net::tcp::socket socket);
  void close();

  // Connections that have not sent anything yet.
  std::size_t waiting() const { return guests_.size(); }
  // When the longest waiting of them was accepted; time_point::max() if there is none.
  time_point oldest() const;
  // Closes that one to make room.
  void close_oldest();

 private:
  struct guest;

  void await_first_byte(const std::shared_ptr<guest>& who, std::uint64_t id);
  void await_input(const std::shared_ptr<guest>& who, std::uint64_t id);
  void look(std::uint64_t id);
  const protocol_router_handlers::take* choose(std::uint64_t id);
  const protocol_router_handlers::take* whose(protocol::wire kind, std::string_view first) const;
  bool is_half_a_word(guest& who, std::string_view first);
  void let_go(std::uint64_t id);
  std::shared_ptr<guest> take_out(std::uint64_t id);
  void drop(std::uint64_t id);
  void dismiss(std::uint64_t id, note_level level, const std::string& why);

  protocol_router_handlers handlers_;
  duration first_byte_limit_;
  std::shared_ptr<evictable_peers> room_;
  std::map<std::uint64_t, std::shared_ptr<guest>> guests_;
  std::uint64_t last_id_ = 0;
  log_limit strangers_;
  log_limit mute_;  // for peers that left without sending anything
};

}  // namespace ddprun::server
