#include "worker/training/device_watch.hpp"

#include "rendezvous/net/threads.hpp"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::worker {
namespace {

constexpr std::chrono::milliseconds between_signs{20};
// The last step waits for no other rank: its gradients were reduced before.
constexpr std::chrono::milliseconds last_step_limit{1000};
constexpr std::chrono::milliseconds abort_limit{2000};
// Steps of a few milliseconds should not become longer by the pauses between two questions.
constexpr std::chrono::milliseconds eager_time{2};
constexpr std::chrono::microseconds between_queries{50};

void pause_since(time_point began) {
  if (std::chrono::steady_clock::now() - began < eager_time) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(between_queries);
  }
}

// Empty: it is whole.
std::string why_not_whole(const std::shared_ptr<const device_event>& step) {
  try {
    if (!step || wait_until_done(*step, last_step_limit)) return "";
    return "when a rank was lost, the GPU had not done all of it";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

bool wait_until_done(const device_event& event, std::chrono::milliseconds within) {
  const auto began = std::chrono::steady_clock::now();
  while (!event.is_done()) {
    if (std::chrono::steady_clock::now() - began >= within) return false;
    pause_since(began);
  }
  return true;
}

struct device_watch::shared {
  shared(duration wait_limit, std::function<bool()> stop)
      : rule(wait_limit), stop_has_come(std::move(stop)) {}

  std::mutex mutex;
  std::condition_variable changed;
  loss_rule rule;
  std::function<bool()> stop_has_come;
  device_collectives collectives;
  std::shared_ptr<const device_event> last_step;
  std::uint64_t begun = 0;  // the newest step
  bool is_ended = true;     // end_step() was called for it
  bool is_in_step = false;  // from its beginning until its gradients are reduced
  bool is_over = false;     // the watch is destroyed
  std::string lost;         // why; empty: no rank is
  std::string not_whole;    // the last finished step, and why
  bool has_aborted = false;
  std::thread thread;

  void watch() {
    std::unique_lock lock(mutex);
    while (!is_over && lost.empty()) {
      if (!is_in_step) {
        changed.wait(lock);
        continue;
      }
      const auto asked = collectives.sign_of_loss;
      lock.unlock();
      const auto sign = answer_of(asked);
      lock.lock();
      if (is_over || !is_in_step || !lost.empty()) continue;
      lost = rule.look(std::chrono::steady_clock::now(), sign, is_stopped());
      if (lost.empty()) changed.wait_for(lock, between_signs);
    }
    if (!lost.empty()) abort(lock);
  }

  static std::string answer_of(const std::function<std::string()>& asked) {
    try {
      return asked ? asked() : "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  bool is_stopped() const {
    try {
      return stop_has_come();
    } catch (const std::exception&) {
      return true;
    }
  }

  // The order counts: what is done after the abort has begun may be wrong, here and, unless they
  // know of it, on other ranks.
  void abort(std::unique_lock<std::mutex>& lock) {
    const auto step = last_step;
    const auto [sign, say, ended] = collectives;
    const std::uint64_t after_last = is_ended ? begun + 1 : begun;
    lock.unlock();
    auto found = why_not_whole(step);
    // If the last step is not whole here, it is not known either what other ranks have of it.
    const std::uint64_t aborted = found.empty() || after_last == 0 ? after_last : after_last - 1;
    try {
      const auto unsaid = ended && say ? say(aborted) : "";
      if (!unsaid.empty()) {
        found =
            "its collectives on the GPU were not ended, because the other ranks could not be "
            "told of that: " +
            unsaid;
      } else if (ended) {
        ended();
      }
    } catch (const std::exception& error) {
      if (found.empty()) found = error.what();
    }
    lock.lock();
    not_whole = std::move(found);
    has_aborted = true;
    changed.notify_all();
  }
};

device_watch::device_watch(duration wait_limit, std::function<bool()> stop_has_come)
    : shared_(std::make_shared<shared>(wait_limit, std::move(stop_has_come))) {
  // The thread holds what it uses, because an abort may hang.
  const auto error =
      net::start_thread(shared_->thread, "ddprun-gpu", [own = shared_] { own->watch(); });
  if (error) throw std::system_error(error, "cannot start a thread that watches the GPU");
}

device_watch::~device_watch() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_over = true;
  shared_->changed.notify_all();
  const bool has_ended =
      shared_->lost.empty() ||
      shared_->changed.wait_for(lock, abort_limit, [this] { return shared_->has_aborted; });
  lock.unlock();
  if (has_ended) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
}

void device_watch::begin_step(std::uint64_t step, device_collectives collectives) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->lost.empty()) return;
  shared_->collectives = std::move(collectives);
  shared_->begun = step;
  shared_->is_ended = false;
  shared_->is_in_step = true;
  shared_->rule.begin_step(std::chrono::steady_clock::now());
  shared_->changed.notify_all();
}

std::string device_watch::wait_for(const device_event& gradients) {
  const auto began = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->rule.begin_wait(began);
  }
  while (true) {
    // Before the question as well: it may be blocked for as long as an abort takes.
    if (auto why = lost(); !why.empty()) return why;
    bool is_done = false;
    try {
      is_done = gradients.is_done();
    } catch (const std::exception&) {
      if (auto why = lost(); !why.empty()) return why;
      throw;
    }
    {
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->lost.empty()) return shared_->lost;
      if (is_done) {
        shared_->is_in_step = false;
        shared_->collectives.sign_of_loss = nullptr;  // it may hold what the program closes next
        shared_->rule.end_step(std::chrono::steady_clock::now());
        return "";
      }
    }
    pause_since(began);
  }
}

void device_watch::end_step(std::shared_ptr<const device_event> step) {
  const std::lock_guard lock(shared_->mutex);
  shared_->last_step = std::move(step);
  shared_->is_ended = true;
}

void device_watch::leave_step() {
  const std::lock_guard lock(shared_->mutex);
  shared_->is_in_step = false;
  shared_->collectives.sign_of_loss = nullptr;
}

std::string device_watch::lost() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->lost;
}

std::string device_watch::end(std::chrono::milliseconds within) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->lost.empty()) shared_->lost = "another rank is lost";
  shared_->changed.notify_all();
  if (!shared_->changed.wait_for(lock, within, [this] { return shared_->has_aborted; })) {
    return "the collectives on the GPU could not be ended within " + ddprun::to_text(within);
  }
  return shared_->not_whole;
}

}  // namespace ddprun::worker
