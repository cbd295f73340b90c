#include "tests/support/failing_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local bool is_failing = false;
thread_local bool has_failed = false;
thread_local std::size_t succeed = 0;
thread_local std::size_t fail = 0;

bool is_next_to_fail() {
  if (!is_failing) return false;
  if (succeed > 0) {
    --succeed;
    return false;
  }
  if (fail == 0) return false;
  --fail;
  has_failed = true;
  return true;
}

void* allocated_or_null(std::size_t bytes) {
  return is_next_to_fail() ? nullptr : std::malloc(bytes);
}

void* allocated(std::size_t bytes) {
  void* const memory = allocated_or_null(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace ddprun::tests {

failing_allocations::failing_allocations(std::size_t before, std::size_t count) {
  succeed = before;
  fail = count;
  has_failed = false;
  is_failing = true;
}

failing_allocations::~failing_allocations() {
  is_failing = false;
}

bool failing_allocations::any() const {
  return has_failed;
}

}  // namespace ddprun::tests

void* operator new(std::size_t bytes) {
  return allocated(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocated(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocated_or_null(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocated_or_null(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
