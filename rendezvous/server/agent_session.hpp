// An agent session is the daemon's end of one connection of the agent protocol. It checks the order
// of the messages, and ends the session with one line if the order is wrong.
//
// A session begins with a hello (an agent) or the report of a guardian; after a hello come statuses
// and finally a goodbye. The session decides nothing: core::run decides which nodes may join and
// which are lost.
//
// Until its first complete line, and again while its last message leaves, it is one of the port's
// evictable peers and may be closed without a message; an agent then reconnects.
//
// Thread rule: one thread, that of the socket's executor. The owner is called from the loop, never
// from inside a call, and may destroy the session in that call.
#pragma once

#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/net/line_connection.hpp"
#include "rendezvous/server/evictable_peers.hpp"

#include <boost/asio/steady_timer.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::server {

class agent_session {
 public:
  class owner {
   public:
    virtual void on_message(agent_session& from, agent_message message) = 0;
    // The connection has ended, or the session ended it; `why` is for the log.
    virtual void on_end(agent_session& from, const std::string& why) = 0;
    // The hello has another protocol version; on_end follows.
    virtual void on_other_version(agent_session& from, const std::string& why) = 0;

   protected:
    ~owner() = default;
  };

  // `socket` must be unread. A peer that sends no complete line within `hello_limit`, or reads
  // nothing for `stall_limit`, is disconnected.
  agent_session(net::tcp::socket socket, connection_id id, owner& whom,
                std::shared_ptr<evictable_peers> newcomers, duration hello_limit,
                duration stall_limit);
  ~agent_session();
  agent_session(const agent_session&) = delete;
  agent_session& operator=(const agent_session&) = delete;

  connection_id id() const { return id_; }
  const std::string& peer_address() const { return peer_address_; }    // numeric
  const std::string& local_address() const { return local_address_; }  // numeric
  // A peer that does not read gets as long as one that does not send. A vanished machine is not
  // noticed earlier either, because a cut of the network may end in that time.
  void set_node_timeout(duration limit);

  void send(std::size_t kind, net::shared_bytes line) { connection_->send(kind, std::move(line)); }

  // Sends the reason and what is queued, and closes; the owner is not called again.
  void refuse(const std::string& text);
  // Call this before the first line has arrived: the peer is refused when it arrives, and the owner
  // only hears of the end. An agent that is already in a run gets `not_primary` instead, so that it
  // continues where it was accepted.
  void turn_away(std::string why) { turned_away_ = std::move(why); }
  void finish();
  // For when there is no memory for a message: the owner hears of the end from the loop.
  void cut() { connection_->cut(); }
  // Closes at once without a message; the owner is not called again.
  void close() { connection_->close(); }

 private:
  void await_hello(duration hello_limit);
  void let_go();
  void take_line(std::string_view line);
  void end(const std::string& why);
  void reject(const std::string& text);
  void send_elsewhere(const std::string& text);

  connection_id id_;
  owner& owner_;
  std::string peer_address_;
  std::string local_address_;
  std::shared_ptr<net::line_connection> connection_;
  std::shared_ptr<evictable_peers> newcomers_;
  evictable_peers::ticket place_ = 0;  // among `newcomers_`, until the first line
  std::unique_ptr<boost::asio::steady_timer> hello_timer_;  // until the first line
  std::string turned_away_;                                 // empty: it is accepted
};

}  // namespace ddprun::server
