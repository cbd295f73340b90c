// A begun task is work that may hang, such as a look at a folder whose file server does not answer:
// it has a thread of its own from the beginning, and is asked for its answer later. Who asks waits
// no longer than until its limit.
//
// It is for callers without a loop; with one, launcher/process/background_task.hpp posts the
// answer.
//
// The work runs elsewhere, and is left behind when it is late: it must own
// what it touches. What it throws comes out of `take`.
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
  // Begins now, and so does the limit. Where no further thread can be started it is as one that is
  // late at once.
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

  // No answer is to come any more: it was taken, is late, or never began.
  bool is_over() const { return !answer_.valid(); }

  // None: it is over, or not done yet, which is all that is asked where the caller does not wait.
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

// The answer of work that is done by then.
template <typename Work>
auto within(duration limit, Work work) -> std::optional<decltype(work())> {
  return begun_task<decltype(work())>(limit, std::move(work)).take(true);
}

}  // namespace ddprun::launcher
