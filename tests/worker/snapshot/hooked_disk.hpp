// The real disk, on which one operation can fail, or a test can act at a bad moment.
#pragma once

#include "worker/snapshot/file_system.hpp"

#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun::tests {

// Hooks run before an operation, on the thread that calls it.
class hooked_disk : public worker::file_system {
 public:
  std::string refuses_to_create;  // a suffix of paths
  std::atomic<int> fails_with{0};
  std::atomic<bool> is_dead{false};  // as the rank that has it: nothing is done any more
  std::function<void(const std::string& path)> before_create;
  std::function<void(const std::string& to)> before_rename;
  std::function<void(const std::string& path)> before_look;  // before a file is read
  std::function<void(const std::string& path)> before_sync;  // before a folder is synced

  // Ready once a folder whose path ends so is synced: what is written to it has been. It takes
  // before_sync.
  std::shared_future<void> when_synced(const std::string& path_end) {
    const auto synced = std::make_shared<std::promise<void>>();
    before_sync = [synced, path_end,
                   told = std::make_shared<std::once_flag>()](const std::string& path) {
      if (path.ends_with(path_end)) std::call_once(*told, [&] { synced->set_value(); });
    };
    return synced->get_future().share();
  }

  error_code make_folder(const std::string& path, bool& made) override {
    return is_dead ? gone() : real_.make_folder(path, made);
  }
  result<std::unique_ptr<worker::output_file>> create(const std::string& path) override {
    if (before_create) before_create(path);
    if (is_dead) return gone();
    if (fails_with != 0 && path.ends_with(refuses_to_create)) {
      return system_error(fails_with);
    }
    return real_.create(path);
  }
  error_code rename_to_new(const std::string& from, const std::string& to) override {
    if (before_rename) before_rename(to);
    return is_dead ? gone() : real_.rename_to_new(from, to);
  }
  error_code remove(const std::string& path) override {
    return is_dead ? gone() : real_.remove(path);
  }
  error_code remove_folder(const std::string& path) override {
    return is_dead ? gone() : real_.remove_folder(path);
  }
  error_code sync_folder(const std::string& path) override {
    if (before_sync) before_sync(path);
    return is_dead ? gone() : error_code();  // no test cuts the power here
  }
  result<std::vector<std::string>> list(const std::string& path) override {
    if (is_dead) return gone();
    return real_.list(path);
  }
  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    looks_at(path);
    if (is_dead) return gone();
    return real_.read(path, bytes_max);
  }
  error_code scan(const std::string& path, const piece_handler& on_piece) override {
    looks_at(path);
    if (is_dead) return gone();
    return real_.scan(path, on_piece);
  }
  result<std::unique_ptr<worker::mapped_file>> map(const std::string& path) override {
    looks_at(path);
    if (is_dead) return gone();
    return real_.map(path);
  }
  result<std::uint64_t> size(const std::string& path) override {
    looks_at(path);
    if (is_dead) return gone();
    return real_.size(path);
  }

 private:
  static error_code gone() { return system_error(EIO); }
  void looks_at(const std::string& path) const {
    if (before_look) before_look(path);
  }

  worker::file_system& real_ = worker::posix_file_system();
};

}  // namespace ddprun::tests
