// A resolver turns a host name and a port into endpoints to dial, without ever blocking the loop.
//
// Numeric addresses need no look-up. Names go to getaddrinfo on a thread of its own, which posts
// its answer: a look-up cannot be cancelled, and destroying an io_context joins Asio's own resolver
// thread for as long as DNS hangs. The answer of a cancelled look-up is dropped.
//
// Thread rule: one thread, that of the executor. The handler is called from the loop, never from
// inside `start`, and not after `cancel` or destruction. Destroy it before its io_context.
//
// Errors: asio::error::host_not_found and similar, or the system's own.
#pragma once

#include "rendezvous/net/net_types.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::net {

using endpoints = std::vector<tcp::endpoint>;  // in the system's order of preference

class resolver {
 public:
  using handler = std::function<void(error_code error, endpoints found)>;
  // Blocks, on its own thread, until the answer arrives.
  using look_up_function =
      std::function<error_code(const std::string& host, std::uint16_t port, endpoints& found)>;

  // Uses the system's resolver.
  explicit resolver(executor where);
  resolver(executor where, look_up_function look_up)
      : executor_(std::move(where)), look_up_(std::move(look_up)) {}
  ~resolver() { cancel(); }
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;

  // `host` may be in brackets. A second start cancels the first.
  void start(std::string host, std::uint16_t port, handler done);
  void cancel();

  struct request;  // shared with the thread of the look-up

 private:
  executor executor_;
  look_up_function look_up_;
  std::shared_ptr<request> request_;
};

// Returns the address if `host` is numeric; brackets and a scope (fe80::1%eth0) are allowed.
std::optional<asio::ip::address> numeric_address(std::string_view host);

}  // namespace ddprun::net
