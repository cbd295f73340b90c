// Computes the checksum of pieces on a thread of its own, while the caller writes them.
//
// Thread rule: one thread calls it. Ownership: a piece must not change until wait() or value()
// returns.
#pragma once

#include "worker/snapshot/checksum.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

namespace ddprun::worker {

class checksum_thread {
 public:
  checksum_thread() : thread_([this] { run(); }) {}
  ~checksum_thread() { end(); }
  checksum_thread(const checksum_thread&) = delete;
  checksum_thread& operator=(const checksum_thread&) = delete;

  void add(std::string_view piece) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(piece);
    changed_.notify_all();
  }
  // Waits until no added piece is needed any more.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pieces_.empty(); });
  }
  // Waits, ends the thread, and returns the checksum of all pieces. Call it once.
  std::uint64_t value() {
    wait();
    end();
    return sum_.value();
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_over_ || !pieces_.empty(); });
      if (is_over_) return;  // pieces that are left are no longer needed
      const std::string_view piece = pieces_.front();
      lock.unlock();
      sum_.add(piece);
      lock.lock();
      pieces_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string_view> pieces_;  // the first one is being added up
  bool is_over_ = false;
  checksum sum_;
  std::thread thread_;  // the last member, because it uses all others
};

}  // namespace ddprun::worker
