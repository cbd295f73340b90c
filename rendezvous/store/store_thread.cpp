#include "rendezvous/store/store_thread.hpp"

#include "rendezvous/net/threads.hpp"
#include "rendezvous/store/session.hpp"

#include <new>
#include <system_error>
#include <utility>

namespace ddprun::store {

error_code store_thread::serve(net::tcp::socket socket, std::shared_ptr<keyspace> space,
                               bool in_place_of_another) {
  error_code error = start();
  if (error) return error;
  try {
    // A std::function must be copyable and a descriptor is not, hence the shared pointer.
    const auto held = std::make_shared<unique_fd>();
    held->reset(socket.release(error));
    if (error) return error;
    const auto arrival = std::make_shared<keyspace::arrival>(space);
    post([held, loop = reactor_.get(), space, arrival, in_place_of_another]() mutable {
      // Nothing could be closed in its place, so this connection is the one to close.
      if (in_place_of_another && !space->cut_oldest_mute()) return;
      start_session(std::move(*held), *loop, std::move(space));
    });
    return {};
  } catch (const std::bad_alloc&) {
    return boost::asio::error::no_memory;
  }
}

void store_thread::post(std::function<void()> what) {
  reactor_->post(std::move(what));
}

error_code store_thread::start() {
  if (thread_.joinable()) return {};
  try {
    reactor_ = std::make_unique<reactor>();
  } catch (const std::system_error& error) {
    return system_error(error.code().value());
  } catch (const std::bad_alloc&) {
    return boost::asio::error::no_memory;
  }
  const error_code error =
      net::start_thread(thread_, "ddprun-store", [loop = reactor_.get()] { loop->run(); });
  if (error) reactor_.reset();
  return error;
}

void store_thread::stop() {
  if (!thread_.joinable()) return;
  reactor_->stop();
  thread_.join();
  reactor_.reset();
}

}  // namespace ddprun::store
