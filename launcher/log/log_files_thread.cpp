// The thread that writes the log files.
#include "launcher/log/log_files_state.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <utility>

namespace ddprun::launcher {
namespace {

using clock = std::chrono::steady_clock;
using log::output_channel;

constexpr std::chrono::milliseconds retry_pause{100};
// A disk that cannot be written is not waited for any longer than this at the end.
constexpr std::chrono::milliseconds broken_limit{2000};

// 0, or why the folder is not there.
int make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error.value();
}

}  // namespace

void log_files::shared::say(const std::string& text) {
  const std::lock_guard lock(handler_mutex);
  if (word_handler) word_handler(text);
}

void log_files::shared::tell_room(file_id id) {
  const std::lock_guard lock(handler_mutex);
  if (room_handler) room_handler(id);
}

// Files that are due again are ready afterwards.
void log_files::shared::await_work(std::unique_lock<std::mutex>& lock) {
  const auto has_work = [&] { return abandoned || !ready.empty() || !folders.empty(); };
  if (broken.empty()) return work.wait(lock, [&] { return has_work() || stopping_since; });
  const auto first = std::min_element(broken.begin(), broken.end(), [](auto& a, auto& b) {
    return a->channel.retry_at < b->channel.retry_at;
  });
  const auto until = (*first)->channel.retry_at;
  work.wait_until(lock, until, has_work);
  const auto now = clock::now();
  std::erase_if(broken, [&](const shared_file& one) {
    if (one->channel.retry_at > now) return false;
    make_ready(one);
    return true;
  });
}

void log_files::shared::run() {
  std::unique_lock lock(mutex);
  while (!abandoned) {
    await_work(lock);
    if (!folders.empty()) {
      const auto paths = std::exchange(folders, {});
      lock.unlock();
      make(paths);
      lock.lock();
    }
    if (!ready.empty()) {
      const shared_file next = ready.front();
      ready.pop_front();
      next->is_ready = false;
      const bool is_given_up =
          stopping_since && next->broken_since && clock::now() >= *stopping_since + broken_limit;
      if (is_given_up) continue;
      lock.unlock();
      serve(next);
      lock.lock();
      continue;
    }
    if (!stopping_since || !folders.empty()) continue;
    if (broken.empty() || clock::now() >= *stopping_since + broken_limit) break;
  }
  for (const auto& [id, one] : files)
    lost.add(one->channel.give_up());
  finished = true;
  changed.notify_all();
}

void log_files::shared::make(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const int error = make_folder(path);
    if (error == 0) continue;
    if (!std::exchange(is_named_folder, true)) {
      say("the folder " + path + " for workers' errors cannot be made: " + std::strerror(error));
    }
    return;
  }
  is_named_folder = false;
}

void log_files::shared::serve(const shared_file& one) {
  {
    const std::lock_guard lock(mutex);
    if (!files.contains(one->id)) return;
  }
  if (!open_now(*one)) return break_off(one);
  while (true) {
    bool room = false;
    bool is_done = false;
    std::string word, late_word;
    {
      const std::lock_guard lock(mutex);
      output_channel& from = one->channel;
      if (!from.pending()) {
        if (one->broken_since) word = mend(*one);
        is_done = from.queue.empty() && from.overrun.none();
        if (is_done && one->is_behind) late_word = catch_up(*one);
        from.collect("ddprun");
        room = std::exchange(from.told_full, false);
        if (is_done && one->users == 0) forget(one);
      }
    }
    if (room) tell_room(one->id);
    if (!word.empty()) say(word);
    if (!late_word.empty()) say(late_word);
    if (is_done) return;
    if (write_all(*one) != output_channel::outcome::taken) return break_off(one);
    const std::lock_guard lock(mutex);
    if (abandoned) return;
    if (!ready.empty()) return make_ready(one);  // one that floods is not the only one
  }
}

bool log_files::shared::open_now(file& one) {
  if (one.opened) return true;
  const auto folder = std::filesystem::path(one.path).parent_path();
  const int error = folder.empty() ? 0 : make_folder(folder);  // empty: the working folder
  if (error == 0) {
    one.opened.reset(
        ::open(one.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666));
  }
  if (one.opened) {
    one.channel.open(one.opened.get(), one.path.c_str());
    return true;
  }
  one.channel.error = error != 0 ? error : errno;
  one.channel.retry_at = clock::now() + retry_pause;
  return false;
}

output_channel::outcome log_files::shared::write_all(file& one) {
  while (one.channel.pending()) {
    const auto outcome = one.channel.write_some();
    if (outcome == output_channel::outcome::later) continue;
    if (outcome != output_channel::outcome::taken) return outcome;
    const std::lock_guard lock(mutex);
    taken_at = clock::now();
    changed.notify_all();
    if (abandoned) break;
  }
  return output_channel::outcome::taken;
}

// No caller waits for this file until it can be written again.
void log_files::shared::break_off(const shared_file& one) {
  bool room = false;
  std::string problem;
  {
    const std::lock_guard lock(mutex);
    output_channel& to = one->channel;
    const auto now = clock::now();
    to.retry_at = now + retry_pause;
    to.broken = true;
    room = std::exchange(to.told_full, false);
    if (!one->broken_since) one->broken_since = now;
    if (!std::exchange(is_named, true)) {
      problem = one->path + " cannot be written: " + std::strerror(to.error) +
                "; the workers go on, and what of their log files does not fit in memory is lost";
    }
    if (one->users == 0 && now >= *one->broken_since + values.patience) {
      lost.add(to.give_up());
      forget(one);
    } else {
      broken.push_back(one);
    }
  }
  if (!problem.empty()) say(problem);
  if (room) tell_room(one->id);
}

// All that was taken is written, and says where what was lost is missing.
std::string log_files::shared::catch_up(file& one) {
  one.is_behind = false;
  const log::output_loss gone = std::exchange(one.behind, {});
  // The owner hears no word any more.
  if (stopping_since) lost.add(gone);
  return gone.is_lost(one.path) + ", as it was written more slowly than they came; the " +
         "file says where";
}

// It can be written again; what was dropped is said at its place with the next bytes. Afterwards
// there may be a word for the person.
std::string log_files::shared::mend(file& one) {
  one.broken_since.reset();
  one.channel.broken = false;
  lost.add(one.channel.dropped);
  const bool is_any_broken = std::any_of(
      files.begin(), files.end(), [](const auto& each) { return each.second->broken_since; });
  if (is_any_broken) return {};
  is_named = false;
  const log::output_loss gone = std::exchange(lost, {});
  return "the log files can be written again" +
         (gone.none() ? "" : "; " + gone.is_lost("") + ", and the files say where");
}

void log_files::shared::forget(const shared_file& one) {
  if (files.erase(one->id) == 0) return;  // its path may be a newer file's by now
  by_path.erase(one->path);
}

}  // namespace ddprun::launcher
