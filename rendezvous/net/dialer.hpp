// A dialer makes one TCP connection: waits if told so, looks the name up, and tries its addresses,
// the next one once the one before has failed or not answered for a moment.
//
// It remembers what a name stood for. Dialed again, it does not wait for the name service, which
// may take longer than a node may be gone: the addresses that it knows are dialed at once, the one
// that answered last before the others, and a fresh look-up runs beside them. What that finds joins
// the attempt, and is what the next one knows. An attempt that knows addresses ends when they have
// failed; only one that knows none waits for the look-up.
//
// All of it ends within the limit. A failure says what was tried and what the system said of each:
// "node-a:29400: [fd00::1]:29400: No route to host; 10.0.0.1:29400: Connection refused".
//
// Thread rule: one thread, that of the executor. The handler comes from the loop, never from inside
// `start`; after `cancel` or destruction it does not come. Destroy it before its io_context.
#pragma once

#include "rendezvous/core/messages/types.hpp"
#include "rendezvous/net/resolve.hpp"
#include "rendezvous/net/types.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddprun::net {

struct dial_result {
  std::optional<tcp::socket> socket;  // none: failed
  tcp::endpoint endpoint;             // that answered
  std::string text;                   // of the failure
};

class dialer {
 public:
  using handler = std::function<void(dial_result result)>;

  // How long an address is waited for before the next one is tried beside it.
  static constexpr std::chrono::milliseconds next_address_after{250};

  explicit dialer(executor where) : executor_(where), resolver_(std::move(where)) {}
  dialer(executor where, resolver::look_up_function look_up)
      : executor_(where), resolver_(std::move(where), std::move(look_up)) {}
  ~dialer() { cancel(); }
  dialer(const dialer&) = delete;
  dialer& operator=(const dialer&) = delete;

  // `limit` counts from the end of `delay`. A second start cancels the first.
  void start(std::string host, std::uint16_t port, duration delay, duration limit, handler done);
  // A look-up that is under way goes on: it is what the next start may know.
  void cancel();

  // From the next start on: no TCP segment of more bytes, in either direction, so that what is said
  // passes a path that loses large packets in silence. 0: as the kernel has it.
  void limit_segments(int bytes) { segment_bytes_max_ = bytes; }

  // Somebody answers there, but not whom the name is for: the other addresses go first from now on.
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
