// The thread on which a process serves its TCPStore connections and nothing else: requests of ten
// thousand clients must not delay heartbeats.
//
// Thread rule: created, started, stopped and handed sockets by one thread; posted tasks run on the
// store's. It is started on first use, so it costs nothing before.
#pragma once

#include "rendezvous/net/net_types.hpp"
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

  // Starts the thread if it is not running. Errors: the system's, out of threads or descriptors.
  error_code start();
  // Serves an accepted connection, which must be unread. If it cannot be taken out of its executor,
  // or no thread can be started, it is closed, and the error is for the log. `in_place_of_another`:
  // closes the oldest mute connection first, or this one if there is none.
  error_code serve(net::tcp::socket socket, std::shared_ptr<keyspace> space,
                   bool in_place_of_another = false);
  // Requires a started thread.
  void post(std::function<void()> what);
  // False until the first use: nothing was ever served.
  bool started() const { return thread_.joinable(); }
  // Ends the thread; remaining connections are closed, in any order.
  void stop();

 private:
  std::unique_ptr<reactor> reactor_;
  std::thread thread_;
};

}  // namespace ddprun::store
