// A blocking stream is one TCP connection for a thread that may wait: every call takes a deadline
// and is back by then, whatever the peer does.
//
// It is not for an event loop; rendezvous/net has those. It never raises SIGPIPE, and a signal that
// is handled interrupts no call.
//
// Thread rule: one thread at a time. Ownership: the descriptor, which no child process inherits.
// Errors: timed_out; connection_closed, when the peer has ended or reset the connection; else the
// system's own. After an error in the middle of a message the stream is of no more use.
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
  // Waits for `delay`, then looks the name up and tries each of its addresses once. On failure
  // `problem` names what was tried and what the system said of each. `segment_bytes_max`: as
  // net::dialer has it.
  static result<blocking_stream> dial(const std::string& host, std::uint16_t port, duration delay,
                                      const deadline& until, std::string& problem,
                                      int segment_bytes_max = 0);

  // Takes over a connected socket.
  explicit blocking_stream(int descriptor);

  // All of `bytes`.
  error_code send(std::string_view bytes, const deadline& until);
  // What has arrived, at least one byte and at most `bytes_max`, is appended to `received`. What is
  // there already is taken even when the deadline has passed.
  error_code receive(std::string& received, std::size_t bytes_max, const deadline& until);

  void close() { descriptor_.reset(); }

 private:
  unique_fd descriptor_;
};

}  // namespace ddprun::worker
