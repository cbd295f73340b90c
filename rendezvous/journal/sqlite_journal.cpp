#include "rendezvous/journal/sqlite_journal.hpp"

#include "rendezvous/base/lifetime.hpp"
#include "rendezvous/journal/folder_lock.hpp"
#include "rendezvous/net/threads.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::journal {

// Shared with the thread, which may hang in the file system for longer than its owner waits for it.
struct sqlite_journal::state : std::enable_shared_from_this<sqlite_journal::state> {
  state(net::executor loop, const sqlite_options& values, handlers handler)
      : where(std::move(loop)),
        options(values),
        told(std::move(handler)),
        patience(std::in_place, where) {}

  std::uint64_t add(std::string run_id, std::optional<core::run_record> record) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex);
      waiting.insert_or_assign(std::move(run_id), std::move(record));
      number = ++last;
    }
    work.notify_one();
    if (!health.empty()) {
      // No caller waits for a disk that is known to be broken.
      boost::asio::post(where, while_alive(weak_from_this(), [this, number] {
                          // It may have recovered meanwhile.
                          health.empty() ? wait_for_it() : settle(number, health);
                        }));
      // Only the first unsettled change starts the timer; the others are covered by it.
    } else if (settled + 1 == number) {
      wait_for_it();
    }
    return number;
  }

  // Limits how long a caller waits for the disk.
  void wait_for_it() {
    patience->expires_after(options.patience);
    patience->async_wait(while_alive(weak_from_this(), [this](error_code cancelled) {
      if (!cancelled && settled != last_number())
        settle(last_number(), no_answer(options, options.patience));
    }));
  }

  static std::string no_answer(const sqlite_options& of, std::chrono::milliseconds waited) {
    return "the state folder " + of.folder + " has not answered for " +
           std::to_string(waited.count()) + " ms: look at its disk";
  }

  void settle(std::uint64_t number, const std::string& problem) {
    hear_of(problem);
    if (number <= settled || !told.persisted) return;
    settled = number;
    settled < last_number() ? wait_for_it() : static_cast<void>(patience->cancel());
    told.persisted(number);
  }

  void hear_of(const std::string& problem) {
    if (problem != health && told.health) told.health(health = problem);
  }

  void wait_for_opening(opened_handler handler) {
    opened = std::move(handler);
    patience->expires_after(options.open_patience);
    patience->async_wait(while_alive(weak_from_this(), [this](error_code cancelled) {
      if (!cancelled) say_opened(open_failure{no_answer(options, options.open_patience)});
    }));
  }

  void say_opened(const open_failure& failure) {
    if (const opened_handler handler = std::exchange(opened, nullptr)) {
      patience->cancel();
      handler(failure);
    }
  }

  std::uint64_t last_number() {
    const std::lock_guard lock(mutex);
    return last;
  }

  void run() {
    // Lock first: two daemons that find an empty folder would both start in it.
    open_failure taken;
    if (!claim.take(options.folder, taken)) {
      tell_opened(std::nullopt, std::move(taken));
      return end();
    }
    // If nothing was ever written, say so before creating the file, which takes the disk's time.
    std::error_code error;
    const bool is_new = !std::filesystem::exists(sqlite_file::path_in(options.folder), error);
    if (is_new && !error) tell_opened(std::vector<core::run_record>(), {});
    open_failure failure;
    file = sqlite_file::open(options.folder, failure, options.vfs, options.clock);
    if (!is_new || error) {
      std::optional<std::vector<core::run_record>> found;
      if (file) found = file->read(failure.problem);
      const bool is_good = found.has_value();
      tell_opened(std::move(found), std::move(failure));
      if (!is_good) return end();
      // The daemon already runs, so this is trouble of the journal, not a failure to open it.
    } else if (!file) {
      const std::lock_guard lock(mutex);
      tell([this, problem = failure.problem] { hear_of(problem); });
    }
    keep_writing();
    end();
  }

  // Requires the mutex. Once the journal is being destroyed, its loop may be gone too.
  template <typename What>
  void tell(What what) {
    if (stopping) return;
    boost::asio::post(where, while_alive(weak_from_this(), std::move(what)));
  }

  void tell_opened(std::optional<std::vector<core::run_record>> found, open_failure why) {
    {
      const std::lock_guard lock(mutex);
      is_opened = true;
      loaded = std::move(found);
      open_problem = std::move(why);
      tell([this, failure = loaded ? open_failure{} : open_problem] { say_opened(failure); });
    }
    done.notify_all();
  }

  // Called between changes as well, however many there are: each one updates only one run.
  void show_alive_when_due() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_alive) return;
    next_alive = now + options.alive_interval;
    if (file) file->show_alive();  // a broken disk is reported with the next change
  }

  void keep_writing() {
    next_alive = std::chrono::steady_clock::now() + options.alive_interval;
    std::unique_lock lock(mutex);
    for (bool failed = false;;) {
      // After a failure wait for the next try, not for work: the failed changes are still there.
      if (failed) {
        done.wait_for(lock, options.retry_interval, [this] { return stopping; });
      } else if (!work.wait_until(lock, next_alive,
                                  [this] { return stopping || !waiting.empty(); })) {
        lock.unlock();
        show_alive_when_due();
        lock.lock();
        continue;
      }
      if (waiting.empty()) return;
      const bool is_last = stopping;
      const std::uint64_t number = last;
      auto taken = std::exchange(waiting, {});
      lock.unlock();
      std::string problem;
      failed = !write({taken.begin(), taken.end()}, problem);
      show_alive_when_due();
      lock.lock();
      tell([this, number, problem] { settle(number, problem); });
      // Merging keeps the newer record of a run that has changed since.
      if (failed) waiting.merge(taken);
      if (is_last) return;
    }
  }

  bool write(const std::vector<change>& changes, std::string& problem) {
    if (!file) {
      open_failure failure;
      file = sqlite_file::open(options.folder, failure, options.vfs, options.clock);
      problem = failure.problem;
    }
    return file && file->write(changes, problem);
  }

  void end() {
    const bool is_done = options.is_removed_when_done && file && file->is_done();
    file.reset();
    if (is_done) sqlite_file::remove(options.folder);
    claim.release();
    const std::lock_guard lock(mutex);
    ended = true;
    done.notify_all();
  }

  const net::executor where;
  const sqlite_options options;
  handlers told;

  // Used by the loop's thread only:
  std::optional<boost::asio::steady_timer> patience;  // reset before the loop ends
  std::uint64_t settled = 0;
  std::string health;
  opened_handler opened;  // empty: no caller waits, or open() does

  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable done;  // opened, stopping, ended
  std::map<std::string, std::optional<core::run_record>> waiting;
  std::uint64_t last = 0;
  bool is_opened = false;
  std::optional<std::vector<core::run_record>> loaded;
  open_failure open_problem;
  bool stopping = false;
  bool ended = false;

  folder_lock claim;  // used by the thread only, like the file
  std::unique_ptr<sqlite_file> file;
  std::chrono::steady_clock::time_point next_alive;
  std::thread thread;
};

std::unique_ptr<sqlite_journal> sqlite_journal::begin(std::shared_ptr<state> shared,
                                                      open_failure& failure) {
  const error_code error =
      net::start_thread(shared->thread, "ddprun-journal", [shared] { shared->run(); });
  if (!error) return std::unique_ptr<sqlite_journal>(new sqlite_journal(std::move(shared)));
  failure.problem = net::thread_problem("the journal", error);
  return nullptr;
}

std::unique_ptr<sqlite_journal> sqlite_journal::open(net::executor where,
                                                     const sqlite_options& options, handlers told,
                                                     open_failure& failure) {
  const auto shared = std::make_shared<state>(std::move(where), options, std::move(told));
  auto made = begin(shared, failure);
  if (!made) return nullptr;
  std::unique_lock lock(shared->mutex);
  const bool answered =
      shared->done.wait_for(lock, options.open_patience, [&] { return shared->is_opened; });
  if (answered && shared->loaded) return made;
  failure = answered ? shared->open_problem
                     : open_failure{state::no_answer(options, options.open_patience)};
  lock.unlock();
  return nullptr;
}

std::unique_ptr<sqlite_journal> sqlite_journal::open_in_background(net::executor where,
                                                                   const sqlite_options& options,
                                                                   handlers told,
                                                                   opened_handler opened,
                                                                   open_failure& failure) {
  const auto shared = std::make_shared<state>(std::move(where), options, std::move(told));
  // Set up before the thread starts, because it may answer at once.
  shared->wait_for_opening(std::move(opened));
  return begin(shared, failure);
}

namespace {

sqlite_options options_for(std::string folder, bool is_removed_when_done) {
  sqlite_options options;
  options.folder = std::move(folder);
  options.is_removed_when_done = is_removed_when_done;
  return options;
}

}  // namespace

opener in_folder(std::string folder, bool is_removed_when_done) {
  return [options = options_for(std::move(folder), is_removed_when_done)](
             const net::executor& where, handlers told,
             open_failure& failure) -> std::unique_ptr<journal> {
    return sqlite_journal::open(where, options, std::move(told), failure);
  };
}

background_opener in_folder_in_background(std::string folder, bool is_removed_when_done) {
  return [options = options_for(std::move(folder), is_removed_when_done)](
             const net::executor& where, handlers told, opened_handler opened,
             open_failure& failure) -> std::unique_ptr<journal> {
    return sqlite_journal::open_in_background(where, options, std::move(told), std::move(opened),
                                              failure);
  };
}

sqlite_journal::sqlite_journal(std::shared_ptr<state> shared) : state_(std::move(shared)) {}

sqlite_journal::~sqlite_journal() {
  state_->told = {};
  state_->opened = nullptr;
  state_->patience.reset();
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->work.notify_all();
  state_->done.notify_all();
  // A journal that has not opened has nothing to write.
  const auto limit = state_->is_opened ? state_->options.patience : std::chrono::milliseconds(0);
  const bool has_ended = state_->done.wait_for(lock, limit, [this] { return state_->ended; });
  lock.unlock();
  // A thread that hangs in the file system is left behind; it shares the ownership of its state.
  has_ended ? state_->thread.join() : state_->thread.detach();
}

std::vector<core::run_record> sqlite_journal::take_loaded() {
  const std::lock_guard lock(state_->mutex);
  return std::move(*std::exchange(state_->loaded, std::vector<core::run_record>()));
}

std::uint64_t sqlite_journal::keep(core::run_record record) {
  std::string run_id = record.run_id;
  return state_->add(std::move(run_id), std::move(record));
}

std::uint64_t sqlite_journal::forget(const std::string& run_id) {
  return state_->add(run_id, std::nullopt);
}

}  // namespace ddprun::journal
