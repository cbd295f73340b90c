// A store on one loopback port, without the rest of a daemon: it accepts on the reactor's own loop
// and serves a keyspace. For tests and benchmarks of the store alone.
//
// Thread rule: that of the reactor; call listen() before it runs.
#pragma once

#include "rendezvous/store/session.hpp"

#include <cerrno>
#include <functional>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace ddprun::tests {

class store_listener {
 public:
  explicit store_listener(store::reactor& loop, store::keyspace_options options = {})
      : door_(std::make_shared<door>(loop, std::move(options))) {}
  ~store_listener() { stop(); }
  store_listener(const store_listener&) = delete;
  store_listener& operator=(const store_listener&) = delete;

  // Listens on 127.0.0.1; port 0 picks a free port.
  error_code listen(std::uint16_t port) {
    door_->socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int fd = door_->socket.get();
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address = loopback(port);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd, 4096) != 0) {
      const int failed = errno;
      door_->socket.reset();
      return system_error(failed);
    }
    return door_->loop.add(fd, EPOLLIN, door_);
  }
  std::uint16_t port() const {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    ::getsockname(door_->socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }
  store::keyspace& space() const { return *door_->space; }

  // Starts a fresh keyspace, and closes the connections of the old one.
  void renew() {
    const auto old = std::exchange(door_->space, std::make_shared<store::keyspace>(door_->options));
    old->cut();
  }
  // Accepts no further connections, and lets the existing ones finish.
  void finish(std::function<void()> ended) {
    stop();
    door_->space->finish();
    door_->space->when_empty(std::move(ended));
  }
  void stop() {
    if (!door_->socket) return;
    door_->loop.remove(door_->socket.get());
    door_->socket.reset();
  }

 private:
  struct door final : store::watcher {
    door(store::reactor& at, store::keyspace_options values)
        : loop(at), options(std::move(values)), space(std::make_shared<store::keyspace>(options)) {}

    void on_ready(std::uint32_t) override {
      unique_fd next(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (next) store::start_session(std::move(next), loop, space);
    }
    void on_deadline() override {}

    store::reactor& loop;
    store::keyspace_options options;
    std::shared_ptr<store::keyspace> space;
    unique_fd socket;
  };

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  std::shared_ptr<door> door_;
};

}  // namespace ddprun::tests
