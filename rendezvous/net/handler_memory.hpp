// Memory for one Asio operation at a time, allocated beforehand, so that a loop that waits again
// and again (for connections, for a timer) keeps waiting when the process is out of memory.
//
// Ownership: the waiting object's. Its handler keeps the object alive while the operation lasts.
#pragma once

#include "rendezvous/net/net_types.hpp"

#include <boost/asio/bind_allocator.hpp>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace ddprun::net {

class handler_memory {
 public:
  handler_memory() = default;
  handler_memory(const handler_memory&) = delete;
  handler_memory& operator=(const handler_memory&) = delete;

  // A second operation at the same time, or a large one, uses the heap, which may throw.
  void* allocate(std::size_t bytes) {
    if (in_use_ || bytes > memory_.size()) return ::operator new(bytes);
    in_use_ = true;
    return memory_.data();
  }
  void deallocate(void* memory) {
    if (memory != memory_.data()) return ::operator delete(memory);
    in_use_ = false;
  }

 private:
  // An operation and its handler, which holds a pointer or two, need about 150 bytes.
  static constexpr std::size_t bytes = 512;
  alignas(std::max_align_t) std::array<std::byte, bytes> memory_{};
  bool in_use_ = false;
};

// For asio::bind_allocator.
template <typename Value>
class handler_allocator {
 public:
  using value_type = Value;

  explicit handler_allocator(handler_memory& memory) : memory_(&memory) {}
  template <typename Other>
  handler_allocator(const handler_allocator<Other>& other) : memory_(other.memory_) {}

  Value* allocate(std::size_t count) {
    return static_cast<Value*>(memory_->allocate(count * sizeof(Value)));
  }
  void deallocate(Value* memory, std::size_t) { memory_->deallocate(memory); }

  friend bool operator==(const handler_allocator& a, const handler_allocator& b) {
    return a.memory_ == b.memory_;
  }

 private:
  template <typename Other>
  friend class handler_allocator;
  handler_memory* memory_;
};

// Returns `handler` with its operation allocated in `memory`.
template <typename Handler>
auto in_memory(handler_memory& memory, Handler handler) {
  return asio::bind_allocator(handler_allocator<void*>(memory), std::move(handler));
}

}  // namespace ddprun::net
