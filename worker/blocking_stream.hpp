// A blocking stream is one TCP connection for a thread that is allowed to block. Every call takes a
// deadline and returns by then, whatever the peer does.
//
// It is not meant for an event loop; rendezvous/net has streams for those. It never raises SIGPIPE,
// and a handled signal does not interrupt a call.
//
// Thread rule: one thread at a time. Ownership: it owns the descriptor, which child processes do
// not inherit. Errors: timed_out; connection_closed when the peer has closed or reset the
// connection; otherwise the system's error. After an error in the middle of a message the stream
// must not be used again.
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "worker/deadline.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::worker {

class blocking_stream {
 public:
  // Waits for `delay`, then resolves the name and tries each of its addresses once. On failure
  // `problem` lists what was tried and the system's error for each address. `segment_bytes_max`
  // limits TCP segments as net::dialer does; 0 sets no limit.
  static result<blocking_stream> dial(const std::string& host, std::uint16_t port, duration delay,
                                      const deadline& until, std::string& problem,
                                      int segment_bytes_max = 0);

  // Takes over a connected socket.
  explicit blocking_stream(int descriptor);

  // Sends all of `bytes`.
  error_code send(std::string_view bytes, const deadline& until);
  // Appends what has arrived to `received`: at least one byte and at most `bytes_max`. Bytes that
  // are already there are taken even if the deadline has passed.
  error_code receive(std::string& received, std::size_t bytes_max, const deadline& until);

  void close() { descriptor_.reset(); }

 private:
  unique_fd descriptor_;
};

}  // namespace ddprun::worker
