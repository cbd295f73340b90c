// Broadcasts between ranks that are threads, as a process group does between processes.
#pragma once

#include "tests/support/patience.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>

namespace ddprun::tests {

class broadcast_of_threads {
 public:
  explicit broadcast_of_threads(std::uint32_t ranks) : ranks_(ranks) {}

  worker::byte_broadcast of(std::uint32_t rank) {
    return [this, rank](std::uint32_t root, char* bytes, std::size_t count) {
      pass(rank, root, bytes, count);
    };
  }
  std::uint64_t bytes() const { return bytes_; }
  std::size_t most_at_once() const { return most_; }
  void break_off() {
    const std::lock_guard lock(mutex_);
    is_broken_ = true;
    changed_.notify_all();
  }

 private:
  // The root stores the bytes, all ranks take them, and the last one frees the space for the next.
  void pass(std::uint32_t rank, std::uint32_t root, char* bytes, std::size_t count) {
    std::unique_lock lock(mutex_);
    const auto wait_for = [&](auto done) {
      const bool is_done = changed_.wait_for(lock, patience, [&] { return is_broken_ || done(); });
      if (is_broken_) throw std::runtime_error("the ranks have lost each other");
      if (!is_done) throw std::runtime_error("a rank has not come");
    };
    if (rank == root) {
      wait_for([&] { return taken_ == 0; });
      on_its_way_.assign(bytes, count);
      bytes_ += count;
      most_ = std::max(most_, count);
      root_ = root;
      taken_ = 1;
    } else {
      wait_for([&] { return taken_ != 0 && !has_[rank]; });
      if (root_ != root || on_its_way_.size() != count) {
        throw std::runtime_error("ranks broadcast different things");
      }
      std::memcpy(bytes, on_its_way_.data(), count);
      ++taken_;
    }
    has_[rank] = true;
    const std::uint64_t round = rounds_;
    if (taken_ == ranks_) {
      ++rounds_;
      taken_ = 0;
      std::memset(has_, 0, sizeof has_);
    }
    changed_.notify_all();
    if (rank == root) wait_for([&] { return rounds_ != round; });
  }

  std::uint32_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string on_its_way_;
  std::uint32_t root_ = 0;
  std::uint32_t taken_ = 0;
  std::uint64_t rounds_ = 0;
  bool has_[64] = {};
  bool is_broken_ = false;
  std::uint64_t bytes_ = 0;
  std::size_t most_ = 0;
};

}  // namespace ddprun::tests
