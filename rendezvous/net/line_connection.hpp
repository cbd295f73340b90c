// A line connection is one TCP connection that carries lines both ways. Both sides use this class.
//
// While nothing arrives it holds no buffer, so ten thousand idle connections cost little. It sends
// through a write_queue: everything queued in one turn of the loop leaves in one write. A peer that
// reads nothing for `stall_limit` while something is queued is disconnected.
//
// Thread rule: one thread, that of the socket's executor. Callbacks are called from the loop, never
// from inside a call, and not after `close` or `finish`. So an owner that calls `close` in its
// destructor may be captured by plain pointer, and may be destroyed inside a callback.
//
// Ownership: held by shared_ptr; pending operations keep it alive until they end.
//
// Errors given to `on_end`: errc::connection_closed (the peer's FIN), errc::message_too_long,
// errc::peer_does_not_read, asio::error::no_memory (this process has no memory left to continue),
// or the system's own.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/keep_alive.hpp"
#include "rendezvous/net/net_types.hpp"
#include "rendezvous/net/write_queue.hpp"
#include "rendezvous/protocol/line_reader.hpp"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun::net {

struct line_handlers {
  std::function<void(std::string_view line)> on_line;
  std::function<void(error_code error)> on_end;  // at most once, and nothing is called after it
  // Called after each read with the memory that the unfinished line takes. May be empty.
  std::function<void(std::size_t bytes)> on_unfinished;
};

class line_connection : public std::enable_shared_from_this<line_connection> {
 public:
  // `socket` must be connected.
  line_connection(tcp::socket socket, line_handlers handlers,
                  duration stall_limit = std::chrono::seconds(10));

  // Begins to read. Call it once.
  void start();

  // Queues one line (with its newline) of a kind; ignored once closed.
  void send(std::size_t kind, shared_bytes line);

  // Sends what is queued, then FIN, then discards what the peer still sends until it closes too or
  // `limit` has passed; then calls `done`, if given, from the loop. If unread bytes were left, the
  // close would become a reset, which may overtake our last messages.
  void finish(duration limit, std::function<void()> done = {});

  // Closes at once: nothing more is sent, and the `done` of a `finish` is not called.
  void close();

  // Shuts the socket down as if the peer had closed it, so the loop reports the end. Needs no
  // memory: `send` does this if it cannot allocate.
  void cut();

  // Sends what the system accepts at once, then closes.
  void break_off();

  bool is_open() const { return phase_ == phase::open; }
  void set_stall_limit(duration limit) { stall_limit_ = limit; }
  void set_keep_alive(const keep_alive& limits);
  // Limits the length of a line from the peer, from the next line on. The default is
  // `line_bytes_max`.
  void set_line_limit(std::size_t bytes) { reader_.set_bytes_max(bytes); }

  // The bytes of the unfinished line, for a message about an unknown peer.
  std::string_view unfinished_line() const { return reader_.unfinished(); }

  // Numeric; empty if the peer is already gone.
  std::string peer_address() const;
  std::string local_address() const;

 private:
  enum class phase { open, finishing, closed };

  template <typename Step>
  void guarded(Step step);
  void wait_to_read();
  void read_some();
  bool give_lines();
  void schedule_write();
  void write_some();
  void wait_to_write();
  void arm_stall_timer();
  void await_end(duration limit);
  void end(error_code error);
  void finished();

  tcp::socket socket_;
  line_handlers handlers_;
  duration stall_limit_;
  protocol::line_reader reader_;
  write_queue queue_;
  std::unique_ptr<boost::asio::steady_timer> timer_;  // made when first needed
  std::function<void()> done_;
  phase phase_ = phase::open;
  bool write_scheduled_ = false;
  bool write_waits_ = false;
  bool sent_fin_ = false;
  bool peer_closed_ = false;
};

}  // namespace ddprun::net
