#include "rendezvous/store/store_thread.hpp"

#include "rendezvous/net/threads.hpp"
#include "rendezvous/store/session.hpp"

#include <new>
#include <system_error>
#include <utility>

namespace ddprun::store {
namespace {

// An accepted connection on its way to the store's thread. A std::function must be copyable, which
// this is not: it is shared.
struct arrival {
  explicit arrival(std::shared_ptr<keyspace> where) : space(std::move(where)) { space->arrives(); }
  ~arrival() { space->has_arrived(); }
  arrival(const arrival&) = delete;
  arrival& operator=(const arrival&) = delete;

  std::shared_ptr<keyspace> space;
  unique_fd socket;
};

}  // namespace

error_code store_thread::serve(net::tcp::socket socket, std::shared_ptr<keyspace> space,
                               bool in_place_of_another) {
  error_code error = start();
  if (error) return error;
  try {
    const auto held = std::make_shared<arrival>(std::move(space));
    held->socket.reset(socket.release(error));
    if (error) return error;
    post([held, loop = reactor_.get(), in_place_of_another] {
      if (in_place_of_another && !held->space->let_unused_go()) return;
      start_session(std::move(held->socket), *loop, held->space);
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
    return {error.code().value(), boost::system::system_category()};
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
