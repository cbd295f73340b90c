#include "rendezvous/net/listener.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/handler_memory.hpp"
#include "rendezvous/net/resolve.hpp"

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>

#include <new>
#include <sys/socket.h>
#include <utility>

namespace ddprun::net {
namespace {

constexpr auto pause_after_failure = std::chrono::milliseconds(200);

error_code open_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool dual_stack) {
  error_code error;
  acceptor.close(error);
  acceptor.open(endpoint.protocol(), error);
  // Connections of the process that had the port before may still be in TIME_WAIT.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && dual_stack) acceptor.set_option(asio::ip::v6_only(false), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(listen_backlog, error);
  if (error) {
    error_code ignored;
    acceptor.close(ignored);
  }
  return error;
}

result<tcp::endpoint> listening_endpoint(int descriptor, std::string& problem) {
  tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  int type = 0;
  int is_listening = 0;
  socklen_t type_size = sizeof type;
  socklen_t flag_size = sizeof is_listening;
  const bool is_socket =
      ::getsockname(descriptor, endpoint.data(), &size) == 0 &&
      ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
      ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag_size) == 0;
  const int family = endpoint.data()->sa_family;
  const bool is_internet = family == AF_INET || family == AF_INET6;
  if (is_socket && is_internet && type == SOCK_STREAM && is_listening != 0) return endpoint;
  problem = "cannot listen on the given descriptor " + std::to_string(descriptor) +
            ": it is not a TCP socket that listens";
  return errc::invalid_argument;
}

}  // namespace

struct listener::state : std::enable_shared_from_this<listener::state> {
  explicit state(executor where) : acceptor(where), timer(where) {}

  tcp::acceptor acceptor;
  asio::steady_timer timer;
  listener_handlers handlers;
  handler_memory memory;  // one waits at a time: for a connection, or for the end of a pause
  bool closed = false;
  bool in_trouble = false;

  // Waiting allocates nothing, so running out of memory cannot end the listening.
  void wait() {
    acceptor.async_wait(tcp::acceptor::wait_read,
                        in_memory(memory, [self = shared_from_this()](error_code error) {
                          if (self->closed) return;
                          if (error) return self->pause(error);
                          self->accept_one();
                        }));
  }

  // Accepts one connection per turn of the loop: the owner handles it before the next one arrives,
  // because it may have to evict another to make room.
  void accept_one() {
    error_code error;
    try {
      tcp::socket socket = acceptor.accept(error);
      if (!error) handlers.on_accept(std::move(socket));
    } catch (const std::bad_alloc&) {
      error = asio::error::no_memory;  // only this connection is closed
    }
    if (closed) return;
    // Out of descriptors or memory: other connections wait in the backlog.
    if (error && error != asio::error::would_block) return pause(error);
    if (!error) in_trouble = false;
    wait();
  }

  void pause(const error_code& error) {
    try {
      // Report trouble once, until a connection is accepted again.
      if (!std::exchange(in_trouble, true) && handlers.on_trouble) {
        handlers.on_trouble("cannot accept connections for now: " + error.message() +
                            "; they wait in the backlog");
      }
      if (closed) return;
      timer.expires_after(pause_after_failure);
      timer.async_wait(in_memory(memory, [self = shared_from_this()](error_code cancelled) {
        if (!cancelled && !self->closed) self->wait();
      }));
    } catch (const std::bad_alloc&) {
      if (!closed) wait();  // neither the message nor the pause is possible
    }
  }
};

result<std::uint16_t> listener::open(const std::string& address, std::uint16_t port,
                                     std::string& problem) {
  close();
  state_ = std::make_shared<state>(executor_);
  tcp::endpoint endpoint(tcp::v6(), port);
  error_code error;
  if (address.empty()) {
    error = open_on(state_->acceptor, endpoint, true);
    // The host has no IPv6.
    if (error == boost::system::errc::address_family_not_supported ||
        error == boost::system::errc::address_not_available) {
      endpoint = tcp::endpoint(tcp::v4(), port);
      error = open_on(state_->acceptor, endpoint, false);
    }
  } else if (const auto numeric = numeric_address(address)) {
    endpoint = tcp::endpoint(*numeric, port);
    error = open_on(state_->acceptor, endpoint, *numeric == asio::ip::address_v6::any());
  } else {
    state_ = nullptr;
    problem = "cannot listen on " + address + ": it is not a numeric address of this host";
    return errc::invalid_argument;
  }
  if (error) {
    state_ = nullptr;
    problem = "cannot listen on " + endpoint_text(endpoint) + ": " + error.message();
    return error;
  }
  set_keep_alive(state_->acceptor.native_handle(), keep_alive_);
  return state_->acceptor.local_endpoint().port();
}

result<std::uint16_t> listening_port(int descriptor, std::string& problem) {
  const auto endpoint = listening_endpoint(descriptor, problem);
  if (!endpoint) return endpoint.error();
  return endpoint->port();
}

result<std::uint16_t> listener::adopt(int descriptor, std::string& problem) {
  close();
  unique_fd given(descriptor);
  const auto endpoint = listening_endpoint(descriptor, problem);
  if (!endpoint) return endpoint.error();
  state_ = std::make_shared<state>(executor_);
  error_code error;
  state_->acceptor.assign(endpoint->protocol(), descriptor, error);
  if (error) {
    state_ = nullptr;
    problem = "cannot listen on the given descriptor " + std::to_string(descriptor) + ": " +
              error.message();
    return error;
  }
  given.release();
  set_keep_alive(descriptor, keep_alive_);
  return endpoint->port();
}

void listener::start(listener_handlers handlers) {
  state_->handlers = std::move(handlers);
  error_code ignored;
  // A connection may be gone again between the wait and the accept, which would then block.
  state_->acceptor.non_blocking(true, ignored);
  state_->wait();
}

void listener::close() {
  const auto closing = std::exchange(state_, nullptr);
  if (!closing) return;
  closing->closed = true;
  closing->timer.cancel();
  error_code ignored;
  closing->acceptor.close(ignored);
}

}  // namespace ddprun::net
