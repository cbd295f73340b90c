// An agent session is the daemon's end of one connection of the agent protocol: it checks that
// messages come in an order that makes sense, and ends the session with a sentence where not.
//
// First comes a hello (an agent) or a guardian's word; after a hello, status and at last goodbye.
// It decides nothing: who may join, and who is lost, is core::run's.
//
// Until its first line has come in full, and again while its last message leaves, it is one of the
// port's evictable peers and may be closed without a message: an agent reconnects.
//
// Thread rule: one thread, that of the socket's executor. The owner is told from the loop, never
// from inside a call, and may destroy the session while it is told.
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
    // Its hello is of another version of the protocol; on_end follows.
    virtual void on_other_version(agent_session& from, const std::string& why) = 0;

   protected:
    ~owner() = default;
  };

  // Nothing was read from `socket`. A peer that has not said its first line within `hello_limit`,
  // or takes nothing that is sent for `stall_limit`, is cut off.
  agent_session(net::tcp::socket socket, connection_id id, owner& whom,
                std::shared_ptr<evictable_peers> newcomers, duration hello_limit,
                duration stall_limit);
  ~agent_session();
  agent_session(const agent_session&) = delete;
  agent_session& operator=(const agent_session&) = delete;

  connection_id id() const { return id_; }
  const std::string& peer_address() const { return peer_address_; }    // numeric
  const std::string& local_address() const { return local_address_; }  // numeric
  // A peer that does not read is given as long as one that does not speak; and one whose machine
  // has vanished is not noticed before: a cut of the network may be over by then.
  void set_node_timeout(duration limit);

  void send(std::size_t kind, net::shared_bytes line) { connection_->send(kind, std::move(line)); }

  // Says why, sends what is queued, and closes; the owner hears nothing more.
  void refuse(const std::string& text);
  // Before the first line has come: the same once it has, and the owner hears of the end only. One
  // that is in a run already is sent elsewhere, for that may go on where it was welcome.
  void turn_away(std::string why) { turned_away_ = std::move(why); }
  void finish();
  // Where there is no memory for what it is to be told: the owner hears of the end from the loop.
  void cut() { connection_->cut(); }
  // At once, without a word; the owner hears nothing more.
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
  evictable_peers::ticket place_ = 0;                       // there, until the first line
  std::unique_ptr<boost::asio::steady_timer> hello_timer_;  // until the first line
  std::string turned_away_;                                 // why; empty: it is not
};

}  // namespace ddprun::server
