// Memory that a state is copied to while training waits, and written from while it goes on. It
// grows to what was needed, and is kept for the next time: new memory costs more time than the
// copy.
//
// Thread rule: one thread at a time.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/snapshot/rank_file.hpp"

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace ddprun::worker {

class staging_buffer {
 public:
  staging_buffer() = default;
  ~staging_buffer() { release(); }
  staging_buffer(const staging_buffer&) = delete;
  staging_buffer& operator=(const staging_buffer&) = delete;

  // Copies the tensors; their views are of the copies then. Out of memory: ENOMEM. With `late`
  // those that may be late are not copied here, but by what is added to it, one after the other, in
  // any thread.
  error_code stage(rank_file_layout& layout, std::vector<std::function<void()>>* late = nullptr);
  std::size_t size() const { return size_; }

 private:
  struct piece {
    char* to;
    std::string_view from;
  };
  static void copy_all(const std::vector<piece>& pieces);
  error_code grow(std::size_t size);
  void release();

  char* bytes_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ddprun::worker
