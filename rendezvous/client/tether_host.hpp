// A tether host is the leader's end of all tethers of its rounds. It takes accepted connections and
// reports the events member_attached, member_beat and member_detached; it applies the effects
// ack_member, refuse_member and drop_members. Tether numbers are never reused by one host, so a
// late message about a tether of an earlier round cannot hit another.
//
// A connection whose first line is not a tether hello, or does not arrive within `first_line`, is
// closed without the machine's knowledge. The machine decides how long a tether may be silent.
//
// Thread rule: one thread, that of the sockets' executor. Callbacks are called from the loop, never
// from inside a call, and not after `drop_all` or destruction. Destroy it before its io_context.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/net/line_connection.hpp"
#include "rendezvous/net/peer_user.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ddprun::client {

class tether_host {
 public:
  struct handlers {
    std::function<void(std::uint64_t tether, tether_hello hello)> attached;
    std::function<void(std::uint64_t tether, const tether_beat& word)> beat;
    std::function<void(std::uint64_t tether)> detached;
    std::function<void(std::string text)> stranger;  // for the log; may be empty
  };
  struct limits {
    duration first_line = std::chrono::seconds(5);
    duration stall = std::chrono::seconds(10);
    std::size_t tethers_max = 100'000;
  };

  explicit tether_host(handlers told);
  tether_host(handlers told, limits bounds);
  ~tether_host();
  tether_host(const tether_host&) = delete;
  tether_host& operator=(const tether_host&) = delete;

  // `socket` must be connected and unread, and speak the agent protocol. If there are too many
  // tethers, the oldest one without a hello is closed; if there is none, this connection.
  void accept(net::tcp::socket socket);
  // Whether other users of this host are accepted (net/peer_user.hpp).
  void let_in_other_users(bool allowed) { lets_in_others_ = allowed; }
  // Existing tethers stay, even if there are more.
  void set_tethers_max(std::size_t most) { limits_.tethers_max = most; }

  // `detached` is not called after a refusal.
  void answer(std::uint64_t tether, std::uint64_t seq);
  void refuse(std::uint64_t tether, const std::string& text);
  void drop_all();

  std::size_t size() const { return tethers_.size(); }

 private:
  struct tether;

  void take_line(std::uint64_t id, std::string_view line);
  void reject(std::uint64_t id, const std::string& what);
  void end(std::uint64_t id, const std::string& what);
  bool end_oldest_stranger();
  std::shared_ptr<net::line_connection> remove(std::uint64_t id);
  void send(net::line_connection& connection, const tether_reply& reply);

  std::shared_ptr<const handlers> handlers_;
  limits limits_;
  std::map<std::uint64_t, std::unique_ptr<tether>> tethers_;
  std::uint64_t last_id_ = 0;
  net::peer_users users_;
  bool lets_in_others_ = false;
};

}  // namespace ddprun::client
