// The thread on which a process serves its TCPStore connections, and nothing else: what stock
// clients ask for by the ten thousand must not hold up heartbeats.
//
// Thread rule: made, started, stopped and handed sockets by one thread; what is posted runs on the
// store's. Started on first use, so that nobody pays for it before.
#pragma once

#include "rendezvous/net/types.hpp"
#include "rendezvous/store/keyspace.hpp"
#include "rendezvous/store/reactor.hpp"

#include <functional>
#include <memory>
#include <thread>

namespace ddprun::store {

class store_thread {
 public:
  store_thread() = default;
  ~store_thread() { stop(); }
  store_thread(const store_thread&) = delete;
  store_thread& operator=(const store_thread&) = delete;

  // Starts the thread if it does not run yet. Errors: the system's, out of threads or descriptors.
  error_code start();
  // Serves an accepted connection of which nothing has been read. One that cannot be taken out of
  // its executor, or for which there is no thread, is closed; the error is for the log.
  // `in_place_of_another`: the oldest goes that has used nothing of the store, or this one.
  error_code serve(net::tcp::socket socket, std::shared_ptr<keyspace> space,
                   bool in_place_of_another = false);
  // Only while it is started.
  void post(std::function<void()> what);
  // False until the first use: nothing was ever served.
  bool started() const { return thread_.joinable(); }
  // Ends the thread; connections that are left are closed, in no order.
  void stop();

 private:
  std::unique_ptr<reactor> reactor_;
  std::thread thread_;
};

}  // namespace ddprun::store
