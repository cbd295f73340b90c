// A session serves one accepted connection of a TCPStore client, with callbacks around the pure
// `store_protocol::on_bytes()` (a coroutine per read costs a tenth more).
//
// It keeps itself alive until the client closes, breaks a rule, or the keyspace ends it. Memory is
// bounded. An idle session holds no buffer, because it reads and answers in the keyspace's; an
// incomplete request is held in a buffer that grows as its bytes arrive; and while replies cannot
// be sent, nothing more is read. The keyspace bounds the buffers of all sessions together, and
// gives up clients first that neither complete a request nor read their replies. If an allocation
// fails, the session that needed it ends. At most `read_buffer_bytes` of one connection are read
// before the others have their turn.
//
// Thread rule: the thread of the reactor, which is the keyspace's; the reactor must outlive it.
// Errors: a session that ends is reported once to the keyspace's log, unless the client left in
// order.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/store/keyspace.hpp"
#include "rendezvous/store/reactor.hpp"
#include "rendezvous/store/store_protocol.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace ddprun::store {

// Serves a connected stream socket, which must be unread, with `space`.
void start_session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space);

class session final : public watcher, public std::enable_shared_from_this<session> {
 public:
  static constexpr std::size_t read_buffer_bytes = keyspace::read_buffer_bytes;

  session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space);
  ~session() override;
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void start();

  // Called by the reactor.
  void on_ready(std::uint32_t events) override;
  void on_deadline() override;

  // Called by the keyspace; none of them throws.
  void wake();
  void finish();
  void cut();
  // Closes this mute connection to make room for another.
  void cut_mute();
  // Frees the memory of a client that does not read or does not send, at once. The session itself
  // ends from the loop, because the caller may be in the middle of a change.
  void give_up();

 private:
  template <typename Step>
  void guarded(Step step);
  void read(bool more);
  void speaks();
  void process();
  void send(protocol::tcpstore::replies& pending);
  void await_writable();
  void is_writable();
  void keep_unused();
  void drop_buffer();
  bool move_unused(std::size_t capacity);
  void stall();
  bool hold(std::size_t capacity);
  void end(error_code reason);
  void report(error_code reason) const;
  protocol::tcpstore::replies& replies();

  // The members that every request touches come first: among thousands of sessions each one is cold
  // in the cache when its turn comes (reactor.cpp prefetches this much).
  unique_fd socket_;
  bool awaits_writable_ = false;
  bool given_up_ = false;
  bool finishing_ = false;
  bool is_mute_ = false;  // its client has not used the store yet
  std::shared_ptr<keyspace> space_;
  std::optional<store_protocol> store_protocol_;  // empty: the session has ended
  // Replies that could not be sent; null while the client reads them.
  std::unique_ptr<protocol::tcpstore::replies> unsent_;
  // Bytes that have arrived and are unused: in the keyspace's buffer or, between turns, at the
  // start of this session's own.
  std::string_view unused_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  reactor& loop_;
  std::size_t held_ = 0;       // bytes charged to the keyspace
  std::uint64_t mute_ = 0;     // ticket from the keyspace while it is mute
  std::uint64_t stalled_ = 0;  // ticket from the keyspace while it is stalled
};

}  // namespace ddprun::store
