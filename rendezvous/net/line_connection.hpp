// A line connection is one TCP connection that carries lines both ways, on either side of it.
//
// It reads without keeping a buffer while nothing comes (ten thousand of them cost little), and
// sends through a write_queue: all that is queued in one turn of the loop leaves in one write. A
// peer that takes nothing for `stall_limit` while something is queued is cut off.
//
// Thread rule: one thread, that of the socket's executor. Callbacks come from the loop, never from
// inside a call; after `close` or `finish` there is none, so an owner that calls `close` in its
// destructor may be captured by plain pointer, and may be destroyed inside a callback.
//
// Ownership: held by shared_ptr; pending operations keep it alive until they have ended.
//
// Errors given to `on_end`: errc::connection_closed (the peer's FIN), errc::message_too_long,
// errc::peer_does_not_read, asio::error::no_memory (this process has none left to go on with), or
// the system's own.
#pragma once

#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/net/keep_alive.hpp"
#include "rendezvous/net/types.hpp"
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
  std::function<void(error_code error)> on_end;  // at most once, and nothing after it
  // After each read: so many bytes of memory the line takes that has begun. May be empty.
  std::function<void(std::size_t bytes)> on_unfinished;
};

class line_connection : public std::enable_shared_from_this<line_connection> {
 public:
  // `socket` is connected.
  line_connection(tcp::socket socket, line_handlers handlers,
                  duration stall_limit = std::chrono::seconds(10));

  // Begins to read; once.
  void start();

  // Queues one line of a kind (with its newline); ignored once closed.
  void send(std::size_t kind, shared_bytes line);

  // Sends what is queued, then FIN, then reads and drops what the peer still says until it closes
  // too, or `limit` has passed; then `done`, if given, from the loop. Without the reading, unread
  // bytes would turn the close into a reset that may overtake our last words.
  void finish(duration limit, std::function<void()> done = {});

  // At once; nothing more is sent, and `done` of a `finish` is not called.
  void close();

  // As if the peer had closed: the loop hears of it. Takes no memory, and is what `send` does where
  // there is none.
  void cut();

  // Sends what the system takes at once, then closes.
  void break_off();

  bool is_open() const { return phase_ == phase::open; }
  void set_stall_limit(duration limit) { stall_limit_ = limit; }
  void set_keep_alive(const keep_alive& limits);
  // Of a line from the peer, from the next on; `line_bytes_max` else.
  void set_line_limit(std::size_t bytes) { reader_.set_bytes_max(bytes); }

  // Bytes of a line that has begun and not ended: for a message about a stranger.
  std::string_view unfinished_line() const { return reader_.unfinished(); }

  // Numeric; empty when the peer is gone already.
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
