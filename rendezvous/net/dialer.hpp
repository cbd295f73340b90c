// A dialer makes one TCP connection. It waits for `delay`, looks the name up, and tries its
// addresses: the next one when the one before has failed or has not answered for a moment.
//
// It remembers the addresses of a name, because the name service may be down for longer than a node
// may be silent. When it dials the same name again, it tries these addresses at once, the one that
// answered last first, while a new look-up runs beside them. What the look-up finds is added to the
// attempt and replaces the remembered addresses. An attempt with remembered addresses ends when
// they have failed; only one without any waits for the look-up.
//
// All of this ends within `limit`. A failure names what was tried and what the system answered:
// "node-a:29400: [fd00::1]:29400: No route to host; 10.0.0.1:29400: Connection refused".
//
// Thread rule: one thread, that of the executor. The handler is called from the loop, never from
// inside `start`, and not after `cancel` or destruction. Destroy it before its io_context.
#pragma once

#include "rendezvous/core/messages/message_types.hpp"
#include "rendezvous/net/net_types.hpp"
#include "rendezvous/net/resolve.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::net {

struct dial_result {
  std::optional<tcp::socket> socket;  // empty: failed
  tcp::endpoint endpoint;             // the address that answered
  std::string text;                   // why it failed
};

class dialer {
 public:
  using handler = std::function<void(dial_result result)>;

  // How long one address is tried before the next one is tried beside it.
  static constexpr std::chrono::milliseconds next_address_after{250};

  explicit dialer(executor where) : executor_(where), resolver_(std::move(where)) {}
  dialer(executor where, resolver::look_up_function look_up)
      : executor_(where), resolver_(std::move(where), std::move(look_up)) {}
  ~dialer() { cancel(); }
  dialer(const dialer&) = delete;
  dialer& operator=(const dialer&) = delete;

  // `limit` counts from the end of `delay`. A second start cancels the first.
  void start(std::string host, std::uint16_t port, duration delay, duration limit, handler done);
  // A look-up that is under way continues, because the next start can use its result.
  void cancel();

  // From the next start on, limits TCP segments to so many bytes in both directions, for paths that
  // drop large packets silently. 0: the kernel's own size.
  void limit_segments(int bytes) { segment_bytes_max_ = bytes; }

  // Reports that the wrong peer answered there: its address moves behind the others.
  void distrust(const tcp::endpoint& stranger);

  struct attempt;  // one `start`, kept alive by its operations

 private:
  void begin(duration limit);
  void look_up();
  void looked_up(error_code error, const endpoints& found);
  void remember(const tcp::endpoint& answered);

  executor executor_;
  resolver resolver_;
  std::string host_;
  std::uint16_t port_ = 0;
  endpoints known_;  // of that host and port, in the order in which they are tried
  bool looking_ = false;
  int segment_bytes_max_ = 0;
  std::shared_ptr<attempt> attempt_;
};

}  // namespace ddprun::net
