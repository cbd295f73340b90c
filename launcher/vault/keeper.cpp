#include "launcher/vault/keeper.hpp"

#include "launcher/vault/buddy_copying.hpp"
#include "launcher/vault/copying.hpp"
#include "launcher/vault/memory_guard.hpp"
#include "rendezvous/base/signals_blocked.hpp"

#include <boost/asio/post.hpp>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun::launcher::vault {
namespace {

// A disk that makes no progress for so long is given up.
constexpr auto patience = std::chrono::seconds(30);
constexpr auto preparation_interval = std::chrono::seconds(1);
constexpr auto end_interval = std::chrono::milliseconds(10);

}  // namespace

keeper::keeper(boost::asio::any_io_executor executor, wiring parts)
    : executor_(executor),
      desk_(std::make_shared<desk>()),
      preparing_(executor),
      patience_(executor),
      restoring_(std::move(parts.restoring)) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path whole = fs::absolute(parts.wanted.disk, error).lexically_normal();
  desk_->wanted = std::move(parts.wanted);
  if (!error) desk_->wanted.disk = whole.string();
  // The path identifies the job's folder, so two spellings must not differ.
  while (desk_->wanted.disk.size() > 1 && desk_->wanted.disk.ends_with('/'))
    desk_->wanted.disk.pop_back();
  desk_->mark = std::move(parts.mark);
  desk_->memory_left = std::move(parts.memory_left);
  preparation_ = std::make_shared<preparation>(desk_);
  desk_->tell_to([executor, watch = alive_.watch(), say = std::move(parts.say)](
                     note_level level, const std::string& text) {
    boost::asio::post(executor, while_alive(watch, [say, level, text] { say(level, text); }));
  });
}

keeper::~keeper() {
  desk_->tell_to({});
  ++desk_->ticket;
  const std::lock_guard lock(desk_->mutex);
  desk_->is_abandoned = true;
  desk_->changed.notify_all();
}

void keeper::prepare(const round_place& here,
                     std::function<void(const std::string& folder)> ready) {
  ready_ = std::move(ready);
  const std::uint64_t ticket = ++desk_->ticket;
  const bool has_failed = std::exchange(has_failed_, false);
  start_copying();
  preparing_.start(
      [shared = desk_, work = preparation_, here, has_failed, ticket] {
        std::unique_lock lock(shared->preparing, std::defer_lock);
        if (!shared->is_silent) {
          lock.lock();
        } else if (!lock.try_lock()) {  // a preparation hangs, and was waited for once
          const std::lock_guard reading(shared->mutex);
          return shared->folder;
        }
        std::string folder = work->run(here, has_failed, ticket);
        shared->is_silent = false;
        return folder;
      },
      [this](std::optional<std::string> folder) {
        patience_.cancel();
        if (const auto then = std::exchange(ready_, nullptr)) then(folder.value_or(""));
      });
  moved_before_ = moved_told_ = desk_->moved;
  watch_preparation(desk_->progress, 0);
}

void keeper::give_up() {
  ++desk_->ticket;
  ready_ = nullptr;
  preparing_.cancel();
  patience_.cancel();
}

void keeper::watch_preparation(std::uint64_t seen, int silent) {
  patience_.expires_after(preparation_interval);
  patience_.async_wait(while_alive(alive_.watch(), [this, seen,
                                                    silent](boost::system::error_code error) {
    if (error || !ready_) return;
    const std::uint64_t moved = desk_->moved;
    if (moved_told_ != moved && restoring_) restoring_(moved - moved_before_);
    moved_told_ = moved;
    const std::uint64_t now = desk_->progress;
    // Any progress shows that the disk is alive, however slow it is.
    if (now != seen) return watch_preparation(now, 0);
    if ((silent + 1) * preparation_interval < patience) return watch_preparation(now, silent + 1);
    desk_->tell(note_level::warning, desk_->wanted.disk +
                                         " does not answer: workers are started without what is "
                                         "kept there");
    // The next preparation must not wait behind the one that hangs.
    desk_->is_silent = true;
    const auto then = std::exchange(ready_, nullptr);
    give_up();
    std::string folder;
    {
      const std::lock_guard lock(desk_->mutex);
      folder = desk_->folder;
    }
    then(folder);
  }));
}

void keeper::start_copying() {
  if (std::exchange(is_copying_, true)) return;
  try {
    const signals_blocked blocked;
    // Detached, because a thread whose disk hangs cannot be joined.
    std::thread([shared = desk_] { copying(*shared).run(); }).detach();
    std::thread([shared = desk_] { buddy_copying(*shared).run(); }).detach();
    std::thread([shared = desk_] { memory_guard(*shared).run(); }).detach();
  } catch (const std::system_error& error) {
    is_copying_ = false;
    desk_->tell_once("copy", std::string("nothing is copied to disk: ") + error.what());
  }
}

void keeper::save_now() {
  // Without the thread there is nothing to copy yet.
  if (is_copying_) desk_->hurry();
}

void keeper::finish(bool ends_well, std::function<void()> done) {
  give_up();
  if (!is_copying_) return boost::asio::post(executor_, std::move(done));
  done_ = std::move(done);
  {
    const std::lock_guard lock(desk_->mutex);
    desk_->is_ending = true;
    desk_->ends_well = ends_well;
    desk_->changed.notify_all();
  }
  watch_end(desk_->progress, 0);
}

void keeper::watch_end(std::uint64_t seen, int silent) {
  patience_.expires_after(end_interval);
  patience_.async_wait(
      while_alive(alive_.watch(), [this, seen, silent](boost::system::error_code error) {
        if (error || !done_) return;
        bool is_over = false;
        {
          const std::lock_guard lock(desk_->mutex);
          is_over = desk_->is_over;
        }
        const std::uint64_t now = desk_->progress;
        const bool is_silent = now == seen;
        if (!is_over && (!is_silent || silent * end_interval < patience)) {
          return watch_end(now, is_silent ? silent + 1 : 0);
        }
        if (!is_over) {
          desk_->tell(note_level::warning,
                      desk_->wanted.disk +
                          " does not answer: what the workers saved last may not be "
                          "there");
        }
        // Posted, so that it comes after the last line that the thread has posted.
        boost::asio::post(executor_, std::exchange(done_, nullptr));
      }));
}

}  // namespace ddprun::launcher::vault
