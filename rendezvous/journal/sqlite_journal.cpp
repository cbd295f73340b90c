#include "rendezvous/journal/sqlite_journal.hpp"

#include "rendezvous/net/threads.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace ddprun::journal {

// Shared with the thread, which may hang in a write for longer than anybody waits for it.
struct sqlite_journal::state : std::enable_shared_from_this<sqlite_journal::state> {
  state(net::executor loop, const sqlite_options& values, handlers handler)
      : where(std::move(loop)),
        options(values),
        told(std::move(handler)),
        patience(std::in_place, where) {}

  // ---- the loop's side
  // ---------------------------------------------------------------------------

  std::uint64_t add(std::string run_id, std::optional<core::run_record> record) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex);
      waiting.insert_or_assign(std::move(run_id), std::move(record));
      number = ++last;
    }
    work.notify_one();
    if (settled + 1 == number) wait_for_it();
    return number;
  }

  // Whoever waits for the disk does not wait for ever.
  void wait_for_it() {
    patience->expires_after(options.patience);
    patience->async_wait([weak = weak_from_this()](error_code cancelled) {
      const auto self = weak.lock();
      if (cancelled || !self || self->settled == self->last_number()) return;
      self->settle(self->last_number(), self->file_path + " takes no write for " +
                                            to_text(self->options.patience) +
                                            ": look whether its disk answers");
    });
  }

  void settle(std::uint64_t number, const std::string& problem) {
    if (!told.persisted) return;
    if (problem != health) told.health(health = problem);
    if (number <= settled) return;
    settled = number;
    settled < last_number() ? wait_for_it() : static_cast<void>(patience->cancel());
    told.persisted(number);
  }

  std::uint64_t last_number() {
    const std::lock_guard lock(mutex);
    return last;
  }

  // ---- the thread's side
  // -------------------------------------------------------------------------

  void run() {
    std::unique_lock lock(mutex);
    for (bool failed = false;;) {
      const auto is_wanted = [this] { return stopping || !waiting.empty(); };
      if (failed) {
        retry.wait_for(lock, options.retry_interval, [this] { return stopping; });
      } else {
        work.wait(lock, is_wanted);
      }
      if (waiting.empty()) break;
      const bool is_last = stopping;
      const std::uint64_t number = last;
      auto taken = std::exchange(waiting, {});
      lock.unlock();
      std::string problem;
      failed = !file->write({taken.begin(), taken.end()}, problem);
      boost::asio::post(where, [weak = weak_from_this(), number, problem] {
        if (const auto self = weak.lock()) self->settle(number, problem);
      });
      lock.lock();
      // What has come since is newer.
      if (failed) waiting.merge(taken);
      if (is_last) break;
    }
    ended = true;
    retry.notify_all();
  }

  const net::executor where;
  const sqlite_options options;
  handlers told;

  // Of the loop.
  std::optional<boost::asio::steady_timer> patience;  // gone before the loop is
  std::uint64_t settled = 0;
  std::string health;
  std::string file_path;
  std::vector<core::run_record> loaded;

  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable retry;
  std::map<std::string, std::optional<core::run_record>> waiting;
  std::uint64_t last = 0;
  bool stopping = false;
  bool ended = false;

  std::unique_ptr<sqlite_file> file;  // the thread's, once it runs
  std::thread thread;
};

std::unique_ptr<sqlite_journal> sqlite_journal::open(net::executor where,
                                                     const sqlite_options& options, handlers told,
                                                     std::string& problem) {
  auto shared = std::make_shared<state>(std::move(where), options, std::move(told));
  shared->file = sqlite_file::open(options.folder, problem, options.vfs);
  if (!shared->file) return nullptr;
  auto loaded = shared->file->read(problem);
  if (!loaded) return nullptr;
  shared->loaded = std::move(*loaded);
  shared->file_path = shared->file->path();
  const error_code error =
      net::start_thread(shared->thread, "ddprun-journal", [shared] { shared->run(); });
  if (error) {
    problem = net::thread_problem("the journal", error);
    return nullptr;
  }
  return std::unique_ptr<sqlite_journal>(new sqlite_journal(std::move(shared)));
}

sqlite_journal::sqlite_journal(std::shared_ptr<state> shared) : state_(std::move(shared)) {}

sqlite_journal::~sqlite_journal() {
  state_->told = {};
  state_->patience.reset();
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->work.notify_all();
  state_->retry.notify_all();
  const bool has_ended =
      state_->retry.wait_for(lock, state_->options.patience, [this] { return state_->ended; });
  lock.unlock();
  has_ended ? state_->thread.join() : state_->thread.detach();
}

std::vector<core::run_record> sqlite_journal::take_loaded() {
  return std::exchange(state_->loaded, {});
}

std::uint64_t sqlite_journal::keep(core::run_record record) {
  std::string run_id = record.run_id;
  return state_->add(std::move(run_id), std::move(record));
}

std::uint64_t sqlite_journal::forget(const std::string& run_id) {
  return state_->add(run_id, std::nullopt);
}

}  // namespace ddprun::journal
