// A file system in memory that forgets what was not synced, and fails where a test wants it.
//
// It is as nasty as POSIX allows: after a power cut each change of a name since the last sync of
// the folder has happened or has not, independently of the others (a rename as a whole), and bytes
// that were not synced are there in part, or as zeros.
//
// Every call is made of steps (making a file, each part written, syncing it...); step numbers count
// from 0 over all calls. `fail` makes one step, or all from there on, return an error; `cut_power`
// makes a step the last one, which may be half done, after which everything fails until `reboot`.
//
// Thread rule: one thread.
#pragma once

#include "worker/file_system.hpp"

#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

class fault_file_system : public worker::file_system {
 public:
  explicit fault_file_system(unsigned seed = 0) : random_(seed) {}

  void fail(std::size_t step, int number, bool only_once) {
    fail_step_ = step;
    fail_number_ = number;
    fail_once_ = only_once;
  }
  // Every read of this file, until `heal`.
  void fail_reads(const std::string& path, int number) { unreadable_[path] = number; }
  void heal() { unreadable_.clear(); }
  void cut_power(std::size_t step) { cut_step_ = step; }
  void lie_about_file_sync() { file_sync_lies_ = true; }
  void lie_about_folder_sync() { folder_sync_lies_ = true; }
  std::size_t steps() const { return steps_; }

  // What a machine finds after the power cut.
  void reboot() {
    for (auto& change : changes_) {
      if (random_() % 2 == 0) apply(change, durable_names_);
    }
    changes_.clear();
    for (auto& [name, file] : durable_names_)
      tear(*file);
    for (const std::string& folder : unsynced_folders_) {
      if (random_() % 2 == 0) lose(folder);
    }
    unsynced_folders_.clear();
    names_ = durable_names_;
    cut_ = false;
    cut_step_.reset();
    fail_step_.reset();
  }

  // For tests that damage files.
  std::string& bytes(const std::string& path) { return names_.at(path)->bytes; }
  bool exists(const std::string& path) const { return names_.contains(path); }
  void put(const std::string& path, std::string bytes) {
    names_[path] = std::make_shared<inode>(inode{bytes, bytes});
    durable_names_[path] = names_[path];
  }

  error_code make_folder(const std::string& path, bool& made) override {
    const auto error = step();
    if (error && !half_done()) return error;
    made = folders_.insert(path).second;
    if (made) unsynced_folders_.insert(path);
    return error;
  }

  error_code write_new(const std::string& path,
                       const std::vector<std::string_view>& parts) override {
    if (auto error = step()) {
      if (half_done()) create(path);
      return error;
    }
    if (names_.contains(path)) return system_error(EEXIST);
    create(path);
    const auto made = names_.at(path);
    for (const auto part : parts) {
      if (auto error = step()) {
        made->bytes += part.substr(0, random_() % (part.size() + 1));
        return error;
      }
      made->bytes += part;
    }
    const auto error = step();
    if (!file_sync_lies_ && (!error || half_done())) made->durable_bytes = made->bytes;
    return error;
  }

  error_code rename(const std::string& from, const std::string& to) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (!names_.contains(from)) return system_error(ENOENT);
    change({from, to, names_.at(from)});
    return error;
  }

  error_code remove(const std::string& path) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (!names_.contains(path)) return system_error(ENOENT);
    change({path, "", nullptr});
    return error;
  }

  error_code sync_folder(const std::string& path) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (folder_sync_lies_) return error;
    std::erase_if(unsynced_folders_, [&](const auto& made) { return above(made) == path; });
    const auto is_inside = [&](const std::string& name) { return above(name) == path; };
    std::erase_if(changes_, [&](const name_change& each) {
      const bool is_durable = is_inside(each.to.empty() ? each.from : each.to);
      if (is_durable) apply(each, durable_names_);
      return is_durable;
    });
    return error;
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    if (auto error = step()) return error;
    std::vector<std::string> found;
    for (const auto& [name, file] : names_) {
      if (name.starts_with(path + "/")) found.push_back(name.substr(path.size() + 1));
    }
    return found;
  }

  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    if (auto error = step()) return error;
    if (unreadable_.contains(path)) return system_error(unreadable_.at(path));
    if (!names_.contains(path)) return system_error(ENOENT);
    if (names_.at(path)->bytes.size() > bytes_max) return make_error_code(errc::limit_reached);
    return names_.at(path)->bytes;
  }

  result<worker::file_head> read_head(const std::string& path, std::size_t bytes_max) override {
    const auto whole = read(path, ~std::size_t{0});
    if (!whole) return whole.error();
    return worker::file_head{whole->substr(0, bytes_max), whole->size()};
  }

 private:
  struct inode {
    std::string bytes;
    std::optional<std::string> durable_bytes;
  };
  using name_map = std::map<std::string, std::shared_ptr<inode>>;
  // from -> to; an empty `from` makes `to`, an empty `to` removes `from`.
  struct name_change {
    std::string from;
    std::string to;
    std::shared_ptr<inode> what;
  };

  static error_code system_error(int number) { return {number, boost::system::system_category()}; }

  error_code step() {
    const std::size_t now = steps_++;
    just_cut_ = false;
    if (cut_) return system_error(EIO);
    if (cut_step_ == now) {
      cut_ = just_cut_ = true;
      return system_error(EIO);
    }
    if (fail_step_ && (fail_once_ ? now == *fail_step_ : now >= *fail_step_)) {
      return system_error(fail_number_);
    }
    return {};
  }

  // The step that the power cut hit may have reached the disk all the same.
  bool half_done() { return just_cut_ && random_() % 2 == 0; }

  void create(const std::string& path) { change({"", path, std::make_shared<inode>()}); }

  static void apply(const name_change& change, name_map& names) {
    if (!change.from.empty()) names.erase(change.from);
    if (!change.to.empty()) names[change.to] = change.what;
  }
  static std::string above(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }
  void lose(const std::string& folder) {
    folders_.erase(folder);
    std::erase_if(durable_names_, [&](const auto& each) { return above(each.first) == folder; });
  }
  void change(name_change change) {
    apply(change, names_);
    changes_.push_back(std::move(change));
  }

  void tear(inode& torn) {
    if (!torn.durable_bytes || *torn.durable_bytes != torn.bytes) {
      torn.bytes.resize(random_() % (torn.bytes.size() + 1));
      if (random_() % 2 == 0) torn.bytes.assign(torn.bytes.size(), '\0');
    }
    torn.durable_bytes = torn.bytes;
  }

  name_map names_;
  name_map durable_names_;
  std::vector<name_change> changes_;  // since the last sync of their folder
  std::set<std::string> folders_;
  std::set<std::string> unsynced_folders_;  // made since the one above them was synced
  std::map<std::string, int> unreadable_;
  std::mt19937 random_;
  std::size_t steps_ = 0;
  std::optional<std::size_t> fail_step_;
  int fail_number_ = 0;
  bool fail_once_ = true;
  std::optional<std::size_t> cut_step_;
  bool cut_ = false;
  bool just_cut_ = false;
  bool file_sync_lies_ = false;
  bool folder_sync_lies_ = false;
};

}  // namespace ddprun::tests
