// A write queue holds what is still to be sent to a peer: at most one message of each kind.
//
// A message replaces an unsent one of its kind and goes to the end, so that messages queued before
// it arrive before it. Only a message that is partly sent stays. So a queue never holds more than
// one state of a peer, whatever the peer does.
//
// It does no I/O. Thread rule: one thread. Ownership: shares the bytes with other queues.
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

  // All bytes to send, for one gathering write; valid until the next change.
  std::vector<boost::asio::const_buffer> buffers() const;

  // Removes the first `bytes`, which were sent.
  void consume(std::size_t bytes);

  void clear();

 private:
  struct entry {
    std::size_t kind = 0;
    shared_bytes bytes;
  };
  std::vector<entry> entries_;
  std::size_t sent_ = 0;  // bytes of the first entry
};

}  // namespace ddprun::net
