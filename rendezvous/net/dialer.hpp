// A dialer makes one TCP connection: waits if told so, resolves, tries each address in turn.
//
// All of it ends within the limit. A failure says what was tried and what the system said of each:
// "node-a:29400: [fd00::1]:29400: No route to host; 10.0.0.1:29400: Connection refused".
//
// Thread rule: one thread, that of the executor. The handler comes from the loop, never from inside
// `start`; after `cancel` or destruction it does not come. Destroy it before its io_context.
#pragma once

#include "rendezvous/core/types.hpp"
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

  explicit dialer(executor where) : executor_(std::move(where)) {}
  ~dialer() { cancel(); }
  dialer(const dialer&) = delete;
  dialer& operator=(const dialer&) = delete;

  // `limit` counts from the end of `delay`. A second start cancels the first.
  void start(std::string host, std::uint16_t port, duration delay, duration limit, handler done);
  void cancel();

  struct attempt;  // one `start`, kept alive by its operations

 private:
  executor executor_;
  std::shared_ptr<attempt> attempt_;
};

}  // namespace ddprun::net
