#include "rendezvous/net/write_queue.hpp"

#include <utility>

namespace ddprun::net {

void write_queue::push(std::size_t kind, shared_bytes bytes) {
  if (bytes->empty()) return;
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    // An entry whose first bytes have left must be completed, or the peer would read a broken line.
    const bool begun = index == 0 && sent_ != 0;
    if (entries_[index].kind == kind && !begun) {
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
      break;
    }
  }
  entries_.push_back({kind, std::move(bytes)});
}

std::vector<boost::asio::const_buffer> write_queue::buffers() const {
  std::vector<boost::asio::const_buffer> all;
  all.reserve(entries_.size());
  for (const entry& item : entries_)
    all.push_back(boost::asio::buffer(*item.bytes));
  if (!all.empty()) all.front() += sent_;
  return all;
}

void write_queue::consume(std::size_t bytes) {
  std::size_t done = 0;
  while (done < entries_.size() && bytes >= entries_[done].bytes->size() - sent_) {
    bytes -= entries_[done].bytes->size() - sent_;
    sent_ = 0;
    ++done;
  }
  sent_ += bytes;
  if (done == entries_.size()) {
    // Release the memory, so that idle connections hold none.
    clear();
  } else {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

void write_queue::clear() {
  std::vector<entry>().swap(entries_);
  sent_ = 0;
}

}  // namespace ddprun::net
