// A background_task runs a call that may block as long as a file system hangs on a thread of its
// own, and posts the answer to the loop: the main thread must never wait for a disk, or for the
// memory of a stuck process (/proc/PID/environ).
//
// Such a call cannot be cancelled. A cancelled call's answer is dropped, however late it comes, and
// blocks nothing: its thread is detached.
//
// Thread rule: one thread, that of the executor; `work` runs elsewhere and must own all it uses.
// `done` is called from the loop, never from inside `start`, and not after `cancel` or destruction.
// Destroy it before its io_context.
#pragma once

#include "rendezvous/base/signals_blocked.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher {

template <typename Answer>
class background_task {
 public:
  // None: the system had no thread left.
  using handler = std::function<void(std::optional<Answer> answer)>;

  explicit background_task(boost::asio::any_io_executor executor)
      : executor_(std::move(executor)) {}
  ~background_task() { cancel(); }
  background_task(const background_task&) = delete;
  background_task& operator=(const background_task&) = delete;

  bool under_way() const { return request_ != nullptr; }

  // A second start cancels the first.
  void start(std::function<Answer()> work, handler done) {
    cancel();
    request_ = std::make_shared<request>();
    request_->where =
        boost::asio::prefer(executor_, boost::asio::execution::outstanding_work.tracked);
    request_->owner = this;
    request_->done = std::move(done);
    try {
      const signals_blocked blocked;
      std::thread([asked = request_, work = std::move(work)] { answer(asked, work()); }).detach();
    } catch (const std::system_error&) {
      answer(request_, std::nullopt);
    }
  }

  void cancel() {
    const auto ending = std::exchange(request_, nullptr);
    if (!ending) return;
    const std::lock_guard lock(ending->mutex);
    ending->where = boost::asio::any_io_executor();
    ending->done = nullptr;
  }

 private:
  // `cancel` gives up the executor under the lock, so that the thread never posts to a loop that
  // has ended.
  struct request {
    std::mutex mutex;
    boost::asio::any_io_executor where;  // empty once cancelled
    background_task* owner = nullptr;    // like `done`, used by the loop's thread only
    handler done;
  };

  static void answer(const std::shared_ptr<request>& asked, std::optional<Answer> found) {
    const std::lock_guard lock(asked->mutex);
    if (!asked->where) return;
    boost::asio::post(asked->where, [asked, found = std::move(found)]() mutable {
      const handler done = std::exchange(asked->done, nullptr);
      if (!done) return;
      asked->owner->cancel();
      done(std::move(found));
    });
  }

  boost::asio::any_io_executor executor_;
  std::shared_ptr<request> request_;
};

}  // namespace ddprun::launcher
