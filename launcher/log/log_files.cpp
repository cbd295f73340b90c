#include "launcher/log/log_files.hpp"

#include "launcher/log/log_files_state.hpp"
#include "rendezvous/net/threads.hpp"

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

constexpr std::chrono::milliseconds stuck_limit{100};

constexpr std::chrono::milliseconds retry_pause{100};
// How long the end of the agent waits at most for a disk that cannot be written.
constexpr std::chrono::milliseconds broken_limit{2000};

// Returns 0 or errno.
int make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error.value();
}

}  // namespace

void log_files::shared::make_ready(const shared_file& one) {
  if (std::exchange(one->is_ready, true)) return;
  ready.push_back(one);
  work.notify_one();
}

log_files::shared::answer log_files::shared::append(file_id id, std::string_view bytes, bool late) {
  std::unique_lock lock(mutex);
  const auto found = files.find(id);
  // Bytes for a file that was closed or given up are dropped.
  if (found == files.end() || found->second->users == 0) return answer::room;
  file& one = *found->second;
  output_channel& to = one.channel;
  const std::size_t queue_bytes = values.queue_bytes;
  const std::size_t held = to.held_bytes();
  // Once bytes were dropped, later ones must not overtake the note about them.
  const bool is_full = held + bytes.size() > queue_bytes + values.late_bytes || !to.overrun.none();
  if (late && is_full) {
    const std::string_view gone = to.keep_newline({.text = bytes});
    if (gone.empty()) return answer::room;
    to.overrun.add(gone);
    one.behind.add(gone);
    if (std::exchange(one.is_behind, true)) return answer::refused;
    const std::string text =
        one.path + " cannot be written as fast as workers print: " + std::to_string(held) +
        " bytes are queued, further lines are dropped until it catches up";
    lock.unlock();
    say(text);
    return answer::refused;
  }
  to.append({.text = bytes}, queue_bytes);
  if (!to.broken) make_ready(found->second);
  if (to.broken || to.queue.size() < queue_bytes) return answer::room;
  to.told_full = true;
  return answer::full;
}

log_files::log_files(options values) : shared_(std::make_shared<shared>()) {
  shared_->values = values;
}

log_files::~log_files() {
  finish(std::chrono::milliseconds(0));
}

void log_files::on_room(std::function<void(file_id)> handler) {
  const std::lock_guard lock(shared_->handler_mutex);
  shared_->room_handler = std::move(handler);
}

void log_files::on_word(std::function<void(const std::string&)> handler) {
  const std::lock_guard lock(shared_->handler_mutex);
  shared_->word_handler = std::move(handler);
}

// The thread starts on first use, because most runs write no files.
bool log_files::start() {
  if (shared_->thread.joinable()) return true;
  if (shared_->is_without_thread) return false;
  const error_code error =
      net::start_thread(shared_->thread, "ddprun-logs", [state = shared_] { state->run(); });
  if (!error) return true;
  shared_->is_without_thread = true;
  shared_->say(net::thread_problem("the log files", error));
  return false;
}

void log_files::make_folders(std::vector<std::string> paths) {
  if (!start()) return;
  const std::lock_guard lock(shared_->mutex);
  for (std::string& path : paths)
    shared_->folders.push_back(std::move(path));
  shared_->work.notify_one();
}

log_files::file_id log_files::open(const std::string& path) {
  if (!start()) return 0;
  const std::lock_guard lock(shared_->mutex);
  const auto known = shared_->by_path.find(path);
  if (known != shared_->by_path.end()) {
    ++shared_->files.at(known->second)->users;
    return known->second;
  }
  const auto made = std::make_shared<file>();
  made->id = ++shared_->last_id;
  made->path = path;
  shared_->files.emplace(made->id, made);
  shared_->by_path.emplace(path, made->id);
  shared_->make_ready(made);
  return made->id;
}

void log_files::close(file_id id) {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->files.find(id);
  if (found == shared_->files.end()) return;
  const auto one = found->second;
  if (--one->users == 0 && !one->broken_since) shared_->make_ready(one);
}

bool log_files::push(file_id id, std::string_view bytes) {
  return shared_->append(id, bytes, false) == shared::answer::room;
}

bool log_files::push_late(file_id id, std::string_view bytes) {
  return shared_->append(id, bytes, true) != shared::answer::refused;
}

bool log_files::has_room(file_id id) const {
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->files.find(id);
  return found == shared_->files.end() || !found->second->channel.told_full;
}

log::output_loss log_files::finish(std::chrono::milliseconds limit) {
  if (!shared_->thread.joinable()) return {};
  std::unique_lock lock(shared_->mutex);
  const auto begin = clock::now();
  shared_->stopping_since = begin;
  shared_->work.notify_one();
  const auto is_finished = [this] { return shared_->finished; };
  // Each byte that the disk accepts meanwhile restarts the limit.
  for (auto until = begin + limit; !shared_->finished && clock::now() < until;
       until = std::max(begin, shared_->taken_at) + limit) {
    shared_->changed.wait_until(lock, until, is_finished);
  }
  // The thread may be in a write that hangs: it gets a moment to notice, and is then left behind.
  if (!shared_->finished) {
    shared_->abandoned = true;
    shared_->work.notify_one();
    shared_->changed.wait_for(lock, stuck_limit, is_finished);
  }
  const bool ended = shared_->finished;
  log::output_loss lost = shared_->lost;
  if (!ended) {
    for (const auto& [id, one] : shared_->files) {
      lost.bytes += one->channel.held_bytes();
      lost.add(one->channel.dropped);
      lost.add(one->channel.overrun);
    }
  }
  lock.unlock();
  // A thread that is left behind must not call into what is destroyed after this.
  on_room(nullptr);
  on_word(nullptr);
  if (ended) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
  return lost;
}

void log_files::shared::say(const std::string& text) {
  const std::lock_guard lock(handler_mutex);
  if (word_handler) word_handler(text);
}

void log_files::shared::tell_room(file_id id) {
  const std::lock_guard lock(handler_mutex);
  if (room_handler) room_handler(id);
}

// Afterwards, files whose retry is due are in `ready`.
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
    // They are all below one folder, so the others would fail in the same way.
    if (!std::exchange(is_named_folder, true)) {
      say("the folder " + path + " for workers' errors cannot be created: " + std::strerror(error));
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
    std::string mended_text, caught_up_text;
    {
      const std::lock_guard lock(mutex);
      output_channel& from = one->channel;
      if (!from.pending()) {
        if (one->broken_since) mended_text = mend(*one);
        is_done = from.queue.empty() && from.overrun.none();
        if (is_done && one->is_behind) caught_up_text = catch_up(*one);
        from.collect("ddprun");
        room = std::exchange(from.told_full, false);
        if (is_done && one->users == 0) forget(one);
      }
    }
    if (room) tell_room(one->id);
    if (!mended_text.empty()) say(mended_text);
    if (!caught_up_text.empty()) say(caught_up_text);
    if (is_done) return;
    if (write_all(*one) != output_channel::outcome::taken) return break_off(one);
    const std::lock_guard lock(mutex);
    if (abandoned) return;
    if (!ready.empty())
      return make_ready(one);  // a file that is flooded must not starve the others
  }
}

bool log_files::shared::open_now(file& one) {
  if (one.opened) return true;
  const auto folder = std::filesystem::path(one.path).parent_path();
  const int error = folder.empty() ? 0 : make_folder(folder);  // the file is in the working folder
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

// Until the file can be written again, no reader has to wait for it.
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
                "; the workers go on, and lines that do not fit in memory are lost";
    }
    // No worker writes to it any more, and the disk had its time.
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

// The rest of the queue is written, including the note about what was lost.
std::string log_files::shared::catch_up(file& one) {
  one.is_behind = false;
  const log::output_loss gone = std::exchange(one.behind, {});
  // After finish() no handler is called, so finish() has to return the loss.
  if (stopping_since) lost.add(gone);
  return gone.is_lost(one.path) + ", as it was written more slowly than they came; the " +
         "file says where";
}

// The file can be written again; the note about dropped lines comes with its next bytes. Returns a
// message for the user, or nothing.
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
  if (files.erase(one->id) == 0) return;  // its path may belong to a newer file
  by_path.erase(one->path);
}

}  // namespace ddprun::launcher
