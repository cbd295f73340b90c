// A listener accepts TCPStore connections on one port and serves them with a fresh keyspace: the
// job store of one round. It can be handed on to the next round on the same port: the keyspace is
// then a new one, and connections to the old one are cut.
//
//   listener jobs(context.get_executor());
//   if (const error_code error = jobs.open("", 0)) ...   // both address families, any free port
//   ... jobs.port() ...
//   jobs.renew();                                         // the next round, a fixed port
//   jobs.close(std::chrono::seconds(2), [] { ... });      // the workers are gone
//
// Thread rule: one thread, that of the executor. Destroyed while open, it cuts everything.
// Errors: system errors of bind and listen. Running out of descriptors later is logged once for
// each time, and accepting goes on after a pause.
#pragma once

#include "rendezvous/store/keyspace.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ddprun::store {

class listener {
 public:
  explicit listener(boost::asio::any_io_executor executor, keyspace_options options = {});
  ~listener();
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  // Listens on a numeric `address`, or on all of both families where it is empty. Port 0 picks a
  // free one. Names are never looked up: errc::invalid_argument.
  error_code open(const std::string& address, std::uint16_t port);
  // The port in use; 0 when not open.
  std::uint16_t port() const;
  keyspace& space() const;

  // Starts a fresh keyspace on the same port and cuts all connections of the old one.
  void renew();

  // Stops listening, sends what is queued, and ends the sending side of every connection. Calls
  // `closed` when all clients have gone, or after `linger`, when those that are left are cut. The
  // listener may be destroyed meanwhile.
  void close(duration linger, std::function<void()> closed);

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace ddprun::store
