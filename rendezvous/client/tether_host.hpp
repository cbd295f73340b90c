// A tether host is the leader's end of all tethers of its rounds: accepted connections go in, and
// come out as member's events member_attached, member_beat and member_detached; the effects
// ack_member, refuse_member and drop_members go in. No two tethers of one host have the same
// number, so that a word about one of an earlier round cannot hit another.
//
// A connection whose first line is no tether hello, or has not come within `first_line`, is ended
// without the machine hearing of it. How long a tether may be silent is the machine's to judge.
//
// Thread rule: one thread, that of the sockets' executor. Callbacks come from the loop, never from
// inside a call, and none after `drop_all` or destruction. Destroy it before its io_context.
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

  // `socket` is connected and speaks the agent protocol; nothing was read from it. Where there are
  // too many, the oldest goes that has not said its hello, else this one.
  void accept(net::tcp::socket socket);
  // Of this host; else they are refused (net/peer_user.hpp).
  void let_in_other_users(bool allowed) { lets_in_others_ = allowed; }
  // As many as there are stay.
  void set_tethers_max(std::size_t most) { limits_.tethers_max = most; }

  // No `detached` follows a refusal.
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
