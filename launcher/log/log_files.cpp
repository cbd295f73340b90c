#include "launcher/log/log_files.hpp"

#include "launcher/log/log_files_state.hpp"
#include "rendezvous/net/threads.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::launcher {
namespace {

using clock = std::chrono::steady_clock;
using log::output_channel;

constexpr std::chrono::milliseconds stuck_limit{100};

}  // namespace

void log_files::shared::make_ready(const shared_file& one) {
  if (std::exchange(one->is_ready, true)) return;
  ready.push_back(one);
  work.notify_one();
}

log_files::shared::answer log_files::shared::append(file_id id, std::string_view bytes, bool late) {
  std::unique_lock lock(mutex);
  const auto found = files.find(id);
  if (found == files.end() || found->second->users == 0) return answer::room;
  file& one = *found->second;
  output_channel& to = one.channel;
  const std::size_t queue_bytes = values.queue_bytes;
  const std::size_t held = to.held_bytes();
  // What comes behind lost lines stays behind them.
  const bool is_full = held + bytes.size() > queue_bytes + values.late_bytes || !to.overrun.none();
  if (late && is_full) {
    to.overrun.add(bytes);
    one.behind.add(bytes);
    if (std::exchange(one.is_behind, true)) return answer::refused;
    const std::string text = one.path + " is written more slowly than its lines come, and " +
                             std::to_string(held) + " bytes wait: more are lost until it goes on";
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

// Most runs need none of it.
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
  // Each byte that is taken meanwhile begins it anew.
  for (auto until = begin + limit; !shared_->finished && clock::now() < until;
       until = std::max(begin, shared_->taken_at) + limit) {
    shared_->changed.wait_until(lock, until, is_finished);
  }
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
  on_room(nullptr);
  on_word(nullptr);
  if (ended) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
  return lost;
}

}  // namespace ddprun::launcher
