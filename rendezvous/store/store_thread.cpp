#include "rendezvous/store/store_thread.hpp"

#include "rendezvous/net/signals_blocked.hpp"
#include "rendezvous/store/session.hpp"

#include <pthread.h>
#include <utility>

namespace ddprun::store {

void store_thread::serve(net::tcp::socket socket, std::shared_ptr<keyspace> space) {
  error_code error;
  // Its own shared pointer: a std::function must be copyable, a descriptor is not.
  const auto held = std::make_shared<unique_fd>(socket.release(error));
  if (error) return;
  start();
  post([held, loop = reactor_.get(), space = std::move(space)]() mutable {
    start_session(std::move(*held), *loop, std::move(space));
  });
}

void store_thread::post(std::function<void()> what) {
  start();
  reactor_->post(std::move(what));
}

void store_thread::start() {
  if (thread_.joinable()) return;
  reactor_ = std::make_unique<reactor>();
  const signals_blocked blocked;
  thread_ = std::thread([loop = reactor_.get()] {
    pthread_setname_np(pthread_self(), "ddprun-store");
    loop->run();
  });
}

void store_thread::stop() {
  if (!thread_.joinable()) return;
  reactor_->stop();
  thread_.join();
  reactor_.reset();
}

}  // namespace ddprun::store
