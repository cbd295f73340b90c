// A session serves one accepted connection of a TCPStore client, by callbacks round the pure
// `store_protocol::on_bytes()` (a coroutine per read costs a tenth more).
//
// It lives by itself until the client closes, breaks a rule, or the keyspace ends it. Memory is
// bounded: an idle session holds no buffer, for it reads and answers in the keyspace's; a request
// that has not arrived in full is kept in one that grows as its bytes come, and while replies
// cannot be sent nothing more is read. All sessions' buffers together are bounded by the keyspace,
// and who neither sends the rest nor takes its replies is the first to go. Where there is no memory
// at all, the session ends that asked for it.
// Of one connection at most `read_buffer_bytes` are read before the others have their turn.
//
// Thread rule: the thread of the reactor, which is that of the keyspace. The reactor outlives it.
// Errors: ended sessions are reported to the keyspace's log, once, unless the client left in order.
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

// Serves a connected stream socket with `space`; nothing has been read from it before.
void start_session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space);

class session final : public watcher, public std::enable_shared_from_this<session> {
 public:
  static constexpr std::size_t read_buffer_bytes = keyspace::read_buffer_bytes;

  session(unique_fd socket, reactor& loop, std::shared_ptr<keyspace> space);
  ~session() override;
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  void start();

  // By the reactor.
  void on_ready(std::uint32_t events) override;
  void on_deadline() override;

  // By the keyspace; none of them throws.
  void wake();
  void finish();
  void cut();
  // It has said nothing, and another wants its place.
  void cut_mute();
  // Memory is short, and this client takes nothing, or sends nothing: frees what is held for it at
  // once. The end comes from the loop, for who asks may be in the middle of a change.
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

  // What every request touches comes first: of thousands of sessions each is cold when its turn
  // comes (reactor.cpp fetches so much ahead).
  unique_fd socket_;
  bool awaits_writable_ = false;
  bool given_up_ = false;
  bool finishing_ = false;
  bool is_mute_ = false;  // its client has asked for nothing yet
  std::shared_ptr<keyspace> space_;
  std::optional<store_protocol> store_protocol_;  // none: the session has ended
  // Those that could not be sent; none while the client takes them.
  std::unique_ptr<protocol::tcpstore::replies> unsent_;
  // Bytes that have come and have not been used: in the keyspace's buffer, or, from one turn to the
  // next, at the start of a buffer of this session's own.
  std::string_view unused_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  reactor& loop_;
  std::size_t held_ = 0;       // bytes charged to the keyspace
  std::uint64_t mute_ = 0;     // the keyspace's ticket while it is mute
  std::uint64_t stalled_ = 0;  // the keyspace's ticket, while something is held for the client
};

}  // namespace ddprun::store
