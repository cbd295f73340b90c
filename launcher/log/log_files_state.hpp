// The state that the owner's side and the thread of log_files share. Internal to log_files.cpp.
//
// Thread rule: all needs the mutex, unless noted.
#pragma once

#include "launcher/log/log_files.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/output_channel.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

namespace ddprun::launcher {

struct log_files::file {
  file_id id = 0;
  std::string path;
  log::output_channel channel;
  std::uint32_t users = 1;  // 0: close it once all is written
  bool is_ready = false;    // it is in `ready`
  std::optional<log::output_channel::time_point> broken_since;
  // Lines were dropped because the disk is too slow; how many, until the queue is written.
  bool is_behind = false;
  log::output_loss behind;
  // Only the thread uses it.
  unique_fd opened;
};

// Lives as long as the owner or the thread.
struct log_files::shared {
  enum class answer { room, full, refused };
  using shared_file = std::shared_ptr<file>;

  // Called by the owner.
  answer append(file_id id, std::string_view bytes, bool late);
  void make_ready(const shared_file& one);

  // Called by the thread.
  void run();
  void await_work(std::unique_lock<std::mutex>& lock);
  void make(const std::vector<std::string>& paths);
  void serve(const shared_file& one);
  bool open_now(file& one);
  log::output_channel::outcome write_all(file& one);
  void break_off(const shared_file& one);
  std::string mend(file& one);
  std::string catch_up(file& one);
  void forget(const shared_file& one);
  void say(const std::string& text);
  void tell_room(file_id id);

  options values;
  mutable std::mutex mutex;
  std::condition_variable work;     // owner to thread
  std::condition_variable changed;  // thread to owner: finished, or bytes were written
  file_id last_id = 0;
  std::unordered_map<file_id, shared_file> files;
  std::unordered_map<std::string, file_id> by_path;
  std::deque<shared_file> ready;
  std::vector<shared_file> broken;  // wait for a retry
  std::vector<std::string> folders;
  log::output_loss lost;  // not reported yet
  bool is_named = false;  // that a file cannot be written was reported
  bool is_named_folder = false;
  log::output_channel::time_point taken_at{};
  std::optional<log::output_channel::time_point> stopping_since;
  bool abandoned = false;
  bool finished = false;
  // Handlers are called, but not set, under it. Never lock it while holding `mutex`.
  std::mutex handler_mutex;
  std::function<void(file_id)> room_handler;
  std::function<void(const std::string&)> word_handler;
  bool is_without_thread = false;  // only the owner uses it
  std::thread thread;
};

}  // namespace ddprun::launcher
