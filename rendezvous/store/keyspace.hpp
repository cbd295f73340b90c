// A keyspace is a key value store with the connections that use it: the job store of one round, or
// the daemon's own. Sessions share it and keep it alive; its creator may end them all.
//
// Thread rule: a keyspace and its sessions run on one thread, that of their reactor. Only the
// counts and oldest_mute() may be read from other threads.
//
// Ownership: by std::shared_ptr. It does not own its sessions.
#pragma once

#include "rendezvous/base/log_limit.hpp"
#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/store/key_value_store.hpp"
#include "rendezvous/protocol/tcpstore_replies.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::store {

class session;

struct keyspace_options {
  core::store_limits limits;
  // A connection that has not sent VALIDATE by then is closed as a stranger.
  duration validate_limit = std::chrono::seconds(10);
  // A client that reads none of its replies for this long, or does not complete a request, is
  // disconnected. PyTorch's clients never reconnect, so this is as long as their default timeout.
  duration stall_limit = std::chrono::seconds(300);
  // Memory for incomplete requests and unsent replies of all sessions together. Values in such
  // replies count towards `limits`.
  std::size_t buffered_bytes_max = std::size_t{1} << 29;
  // Gets one line for each connection that had to be closed, and nothing else; if there are many at
  // once, only some are logged (base/log_limit.hpp).
  std::function<void(note_level, const std::string&)> log;
};

class keyspace {
 public:
  // Holds every request of PyTorch's client except those with large values.
  static constexpr std::size_t read_buffer_bytes = 2048;

  explicit keyspace(keyspace_options options = {});
  ~keyspace();
  keyspace(const keyspace&) = delete;
  keyspace& operator=(const keyspace&) = delete;

  core::key_value_store& values() { return values_; }
  const keyspace_options& options() const { return options_; }
  std::size_t session_count() const { return session_count_.load(std::memory_order_relaxed); }
  // Includes connections that have not been handed to the keyspace's thread yet.
  std::size_t connection_count() const { return arriving_ + session_count_; }
  // Only the connections not yet handed over.
  std::size_t arriving_count() const { return arriving_; }
  // Of all connections, the ones that have sent nothing but VALIDATE and PING.
  std::size_t mute_count() const { return arriving_ + mute_count_; }
  // When the oldest of these mute connections was accepted; time_point::max() if there is none.
  time_point oldest_mute() const { return time_point(duration(oldest_mute_.load())); }

  // A connection counts as arriving while this lives. May be created on any thread.
  class arrival {
   public:
    explicit arrival(std::shared_ptr<keyspace> at) : at_(std::move(at)) { ++at_->arriving_; }
    ~arrival() { --at_->arriving_; }
    arrival(const arrival&) = delete;
    arrival& operator=(const arrival&) = delete;

   private:
    std::shared_ptr<keyspace> at_;
  };

  // Closes mute connections, the oldest first, until no more than `mute_max` are left, and as many
  // of them as it takes to get down to `connections_max`. Clients that have used the store stay.
  void cut_mute(std::size_t mute_max, std::size_t connections_max);
  // Closes the oldest mute connection; returns false if there is none.
  bool cut_oldest_mute();
  // Closes every connection at once; unsent replies are lost.
  void cut();
  // Sends what is queued and then shuts down the sending side of every connection; each is closed
  // when its client has closed it too. Later sessions are ended in the same way.
  void finish();
  // Calls `handler` once, when the last session ends, or at once if there is none.
  void when_empty(std::function<void()> handler);

  // The rest is for sessions only.
  void add(session& member, core::key_value_store::client_id id);
  void remove(core::key_value_store::client_id id);
  void notify_if_empty();
  // Answers every client whose wait has ended.
  void deliver_wakes() {
    if (!values_.woken().empty()) deliver_woken();
  }
  // Returns false if `buffered_bytes_max` would be exceeded even after giving up stalled sessions.
  bool charge_buffered(std::size_t bytes);
  // Registers a session whose client reads no replies, or has not completed a request, until
  // `not_stalled` is called with the returned ticket. When memory runs short, the sessions that
  // have stalled longest are given up first.
  std::uint64_t stalled(session& member);
  void not_stalled(std::uint64_t ticket) { stalled_.erase(ticket); }
  // Registers a new session as mute until `speaks` is called with the returned ticket.
  std::uint64_t mute(session& member);
  void speaks(std::uint64_t ticket);
  std::size_t stalled_count() const { return stalled_.size(); }
  void release_buffered(std::size_t bytes);
  std::size_t buffered_bytes() const { return buffered_bytes_; }
  bool finishing() const { return finishing_; }
  // For the bytes that one session reads in its turn; not preserved beyond it.
  std::span<char> read_buffer() { return read_buffer_; }
  // For the replies of one session in its turn, which it leaves empty: it moves what could not be
  // sent into replies of its own.
  protocol::tcpstore::replies& replies() { return *replies_; }
  std::unique_ptr<protocol::tcpstore::replies> take_replies();
  void log(note_level level, std::string text);

 private:
  void deliver_woken();
  void count_mute();
  bool cut_stalled();

  keyspace_options options_;
  core::key_value_store values_;
  log_limit strangers_;
  log_limit others_;
  std::array<char, read_buffer_bytes> read_buffer_;
  std::unique_ptr<protocol::tcpstore::replies> replies_;
  std::vector<session*> sessions_;  // by client id; may hold nulls
  std::vector<core::key_value_store::client_id> waking_;
  std::map<std::uint64_t, session*> stalled_;  // by ticket, in order of arrival
  struct silence {
    time_point since;
    session* member;
  };
  std::map<std::uint64_t, silence> mute_;  // by ticket
  std::uint64_t last_ticket_ = 0;
  std::function<void()> when_empty_;
  std::atomic<std::size_t> session_count_ = 0;
  std::atomic<std::size_t> arriving_ = 0;
  std::atomic<std::size_t> mute_count_ = 0;
  std::atomic<duration::rep> oldest_mute_ = duration::max().count();
  std::size_t buffered_bytes_ = 0;
  bool delivering_ = false;
  bool finishing_ = false;
};

}  // namespace ddprun::store
