// A begun task is work that may hang, such as reading a folder whose file server does not answer.
// It starts at once on a thread of its own, and is asked for its answer later; nobody waits beyond
// its limit.
//
// It is for callers without a loop; with one, launcher/process/background_task.hpp posts the
// answer.
//
// The work runs elsewhere and is left behind if it is late, so it must own what it uses. What it
// throws comes out of `take`.
#pragma once

#include "rendezvous/base/signals_blocked.hpp"
#include "rendezvous/base/time.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher {

template <typename Answer>
class begun_task {
 public:
  // The work and its limit start now. If no thread can be started, the task is late at once.
  template <typename Work>
  begun_task(duration limit, Work work) : until_(std::chrono::steady_clock::now() + limit) {
    const auto task = std::make_shared<std::packaged_task<Answer()>>(std::move(work));
    answer_ = task->get_future();
    try {
      const signals_blocked blocked;
      std::thread([task] { (*task)(); }).detach();
    } catch (const std::system_error&) {
      answer_ = {};
    }
  }

  // True if no answer will come any more: it was taken, is late, or the work never started.
  bool is_over() const { return !answer_.valid(); }

  // Empty if it is over, or not done yet. `waits`: waits until the limit.
  std::optional<Answer> take(bool waits) {
    if (is_over()) return std::nullopt;
    const auto now = std::chrono::steady_clock::now();
    if (answer_.wait_until(waits ? until_ : now) != std::future_status::ready) {
      if (waits || now >= until_) answer_ = {};
      return std::nullopt;
    }
    return answer_.get();
  }

 private:
  std::chrono::steady_clock::time_point until_;
  std::future<Answer> answer_;  // invalid: it is over
};

// Runs the work and returns its answer if it is done within the limit.
template <typename Work>
auto within(duration limit, Work work) -> std::optional<decltype(work())> {
  return begun_task<decltype(work())>(limit, std::move(work)).take(true);
}

}  // namespace ddprun::launcher
