// A keyspace is one key value store with the connections that use it: one job store of one round,
// or the daemon's own. Sessions share it, and keep it alive; whoever made it may end them all.
//
// Thread rule: everything of one keyspace, its sessions too, runs on one thread, that of their
// reactor; only the counts and oldest_mute() may be asked from others.
// Ownership: by std::shared_ptr. It refers to its sessions without owning them.
#pragma once

#include "rendezvous/base/log_limit.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/types.hpp"
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
  // A connection that has not said VALIDATE by then is a stranger and is closed.
  duration validate_limit = std::chrono::seconds(10);
  // A client that takes none of its replies for so long, or sends nothing more of a request that it
  // has begun, is cut off. PyTorch's clients never connect again, so this is as long as their own
  // default timeout.
  duration stall_limit = std::chrono::seconds(300);
  // Memory for requests that have not arrived in full and replies that cannot be sent yet, of all
  // sessions together; the values in such replies count in `limits`.
  std::size_t buffered_bytes_max = std::size_t{1} << 29;
  // Takes one line for each connection that had to be closed, and is told nothing else; of many at
  // once, only some (base/log_limit.hpp).
  std::function<void(note_level, const std::string&)> log;
};

class keyspace {
 public:
  // Holds every request of PyTorch's client but those with large values.
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
  // Only those.
  std::size_t arriving_count() const { return arriving_; }
  // Of all connections, the ones that have sent nothing but VALIDATE and PING.
  std::size_t mute_count() const { return arriving_ + mute_count_; }
  // When the oldest of these mute connections came; never, if there is none.
  time_point oldest_mute() const { return time_point(duration(oldest_mute_.load())); }

  // A connection is on its way while this lives; may be made on any thread.
  class arrival {
   public:
    explicit arrival(std::shared_ptr<keyspace> at) : at_(std::move(at)) { ++at_->arriving_; }
    ~arrival() { --at_->arriving_; }
    arrival(const arrival&) = delete;
    arrival& operator=(const arrival&) = delete;

   private:
    std::shared_ptr<keyspace> at_;
  };

  // Closes those that have said nothing, the oldest first, until so few of them are left, and, as
  // far as they go, so few connections. Clients that have used the store stay.
  void cut_mute(std::size_t mute_max, std::size_t connections_max);
  // The oldest of those; false where there is none.
  bool cut_oldest_mute();
  // Closes every connection at once; replies that have not been sent are lost.
  void cut();
  // Sends what is queued and then ends the sending side of every connection; each is closed when
  // its client has closed it too. Later sessions are ended in the same way.
  void finish();
  // Called once, from the last session, when there is none left; at once when there is none now.
  void when_empty(std::function<void()> handler);

  // For sessions only.
  void add(session& member, core::key_value_store::client_id id);
  void remove(core::key_value_store::client_id id);
  void notify_if_empty();
  // Answers every client whose wait is over.
  void deliver_wakes() {
    if (!values_.woken().empty()) deliver_woken();
  }
  // False where `buffered_bytes_max` would be passed, whoever is cut off for it.
  bool charge_buffered(std::size_t bytes);
  // A session whose client takes no replies now, or has not sent the rest of a request, until
  // `not_stalled` with the ticket returned here. Where memory is short, those that have stalled
  // longest are the first to go.
  std::uint64_t stalled(session& member);
  void not_stalled(std::uint64_t ticket) { stalled_.erase(ticket); }
  // A session that has begun, until `speaks` with the ticket returned here.
  std::uint64_t mute(session& member);
  void speaks(std::uint64_t ticket);
  std::size_t stalled_count() const { return stalled_.size(); }
  void release_buffered(std::size_t bytes);
  std::size_t buffered_bytes() const { return buffered_bytes_; }
  bool finishing() const { return finishing_; }
  // What one session reads in its turn, and nobody keeps beyond it.
  std::span<char> read_buffer() { return read_buffer_; }
  // Where one session answers in its turn, and which it leaves empty; what could not be sent, it
  // takes along.
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
  std::vector<session*> sessions_;  // by client id; null where there is none
  std::vector<core::key_value_store::client_id> waking_;
  std::map<std::uint64_t, session*> stalled_;  // by ticket, which counts up
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
