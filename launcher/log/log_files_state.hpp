// What the two sides of the log_files share: the owner's and the thread's. Internal to
// log_files.cpp.
//
// Thread rule: under the mutex, unless it is said.
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
  std::uint32_t users = 1;  // 0: it is closed once all is written
  bool is_ready = false;    // the thread has something to do with it
  std::optional<log::output_channel::time_point> broken_since;
  // Lines were lost as it is written too slowly, and how many; until all that is there is written.
  bool is_behind = false;
  log::output_loss behind;
  // The thread's own.
  unique_fd opened;
};

// What the thread and the owner share; it lives as long as either.
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
  std::condition_variable changed;  // thread to owner: finished, or some was taken
  file_id last_id = 0;
  std::unordered_map<file_id, shared_file> files;
  std::unordered_map<std::string, file_id> by_path;
  std::deque<shared_file> ready;
  std::vector<shared_file> broken;  // to be tried again
  std::vector<std::string> folders;
  log::output_loss lost;  // and not told yet
  bool is_named = false;  // that one could not be written
  bool is_named_folder = false;
  log::output_channel::time_point taken_at{};
  std::optional<log::output_channel::time_point> stopping_since;
  bool abandoned = false;
  bool finished = false;
  // Not changed while they are called. Never taken while `mutex` is held.
  std::mutex handler_mutex;
  std::function<void(file_id)> room_handler;
  std::function<void(const std::string&)> word_handler;
  bool is_without_thread = false;  // the owner's own
  std::thread thread;
};

}  // namespace ddprun::launcher
