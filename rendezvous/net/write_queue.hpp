// A write queue holds what a peer has still to be sent: at most one message of each kind.
//
// A message replaces an unsent one of its kind and goes to the end, so that what was said before it
// arrives before it. Only a message whose first bytes have left stays. So a queue never holds more
// than one state of a peer, whatever the peer does.
//
// It does no I/O. Thread rule: one thread. Ownership: shares the bytes, which many queues may hold.
#pragma once

#include <boost/asio/buffer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::net {

using shared_bytes = std::shared_ptr<const std::string>;

class write_queue {
 public:
  void push(std::size_t kind, shared_bytes bytes);

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  // All that is to be sent, for one gathering write; valid until the next change.
  std::vector<boost::asio::const_buffer> buffers() const;

  // The first `bytes` of it have left.
  void consume(std::size_t bytes);

  void clear();

 private:
  struct entry {
    std::size_t kind = 0;
    shared_bytes bytes;
  };
  std::vector<entry> entries_;
  std::size_t sent_ = 0;  // of the first entry
};

}  // namespace ddprun::net
