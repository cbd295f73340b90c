// A file system in memory that loses what was not synced, and fails where a test wants it to.
//
// It is as unreliable as POSIX allows: after a power cut each change of a name since the last sync
// of its folder has happened or not, independently of the others, and bytes that were not synced
// are there in part, or are zeros.
//
// Every call consists of steps (creating a file, each part that is written, syncing it...), which
// are numbered from 0 over all calls. `fail` makes one step, or all from there on, return an error.
// `cut_power` makes a step the last one, which may be half done; everything then fails until
// `reboot`.
//
// Thread rule: one thread at a time.
#pragma once

#include "worker/snapshot/file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

class fault_file_system : public worker::file_system {
 public:
  explicit fault_file_system(unsigned seed = 0) : random_(seed) {}

  void fail(std::size_t step, int number, bool only_once) {
    fail_number_of(step, only_once ? 1 : ~std::size_t{0}, number);
  }
  // Lets `count` consecutive steps fail.
  void fail_number_of(std::size_t step, std::size_t count, int number) {
    fail_step_ = step;
    fail_count_ = count;
    fail_number_ = number;
  }
  // Lets every read of this file fail, until `heal`.
  void fail_reads(const std::string& path, int number) { unreadable_[path] = number; }
  void heal() { unreadable_.clear(); }
  void cut_power(std::size_t step) { cut_step_ = step; }
  void lie_about_file_sync() { file_sync_lies_ = true; }
  void lie_about_folder_sync() { folder_sync_lies_ = true; }
  std::size_t steps() const { return steps_; }
  // The files of ranks that were removed while a power cut could still bring back the manifest
  // beside them. There must be none, whatever has failed.
  const std::vector<std::string>& removed_too_early() const { return removed_too_early_; }

  // Restores what a machine finds after a power cut.
  void reboot() {
    for (auto& change : changes_) {
      if (random_() % 2 == 0) apply(change, durable_names_);
    }
    changes_.clear();
    for (auto& [name, file] : durable_names_)
      tear(*file);
    // The content of a lost folder is lost too. Names are sorted, so a folder precedes its files.
    for (auto at = durable_names_.begin(); at != durable_names_.end();) {
      const std::string folder = above(at->first);
      const bool is_lost = folder != "." && !durable_names_.contains(folder);
      at = is_lost ? durable_names_.erase(at) : std::next(at);
    }
    names_ = durable_names_;
    cut_ = false;
    cut_step_.reset();
    fail_step_.reset();
  }

  // These are for tests that damage files.
  std::string& bytes(const std::string& path) { return names_.at(path)->bytes; }
  bool exists(const std::string& path) const { return names_.contains(path); }
  void put(const std::string& path, std::string bytes) {
    if (const std::string folder = above(path); folder != "." && !exists(folder)) {
      put(folder, "");
      names_.at(folder)->is_folder = true;
    }
    names_[path] = std::make_shared<inode>(inode{bytes, bytes, false});
    durable_names_[path] = names_[path];
  }

  error_code make_folder(const std::string& path, bool& made) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (above(path) != "." && !names_.contains(above(path))) return system_error(ENOENT);
    made = !names_.contains(path);
    if (made) create_inode(path)->is_folder = true;
    return error;
  }

  result<std::unique_ptr<worker::output_file>> create(const std::string& path) override {
    if (auto error = step()) {
      if (half_done() && names_.contains(above(path))) create_inode(path);
      return error;
    }
    if (names_.contains(path)) return system_error(EEXIST);
    if (!names_.contains(above(path))) return system_error(ENOENT);
    return std::unique_ptr<worker::output_file>(
        std::make_unique<output>(*this, create_inode(path)));
  }

  // These are two changes of names, of which a power cut may keep either.
  error_code rename_to_new(const std::string& from, const std::string& to) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (!names_.contains(from)) return system_error(ENOENT);
    if (names_.contains(to)) return system_error(EEXIST);
    change({"", to, names_.at(from)});
    change({from, "", nullptr});
    return error;
  }

  error_code remove(const std::string& path) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (!names_.contains(path)) return system_error(ENOENT);
    if (names_.at(path)->is_folder) return system_error(EISDIR);
    change({path, "", nullptr});
    return error;
  }

  error_code remove_folder(const std::string& path) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (!names_.contains(path)) return system_error(ENOENT);
    if (const auto next = names_.upper_bound(path + "/");
        next != names_.end() && next->first.starts_with(path + "/")) {
      return system_error(ENOTEMPTY);
    }
    change({path, "", nullptr});
    return error;
  }

  error_code sync_folder(const std::string& path) override {
    const auto error = step();
    if (error && !half_done()) return error;
    if (folder_sync_lies_) return error;
    std::erase_if(changes_, [&](const name_change& each) {
      const bool is_durable = above(each.to.empty() ? each.from : each.to) == path;
      if (is_durable) apply(each, durable_names_);
      return is_durable;
    });
    return error;
  }

  result<std::vector<std::string>> list(const std::string& path) override {
    if (auto error = step()) return error;
    if (!names_.contains(path)) return system_error(ENOENT);
    std::vector<std::string> found;
    for (const auto& [name, file] : names_) {
      if (above(name) == path) found.push_back(name.substr(path.size() + 1));
    }
    return found;
  }

  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    if (auto error = step()) return error;
    if (unreadable_.contains(path)) return system_error(unreadable_.at(path));
    if (!names_.contains(path)) return system_error(ENOENT);
    if (names_.at(path)->is_folder) return make_error_code(errc::not_found);
    if (names_.at(path)->bytes.size() > bytes_max) return make_error_code(errc::limit_reached);
    return names_.at(path)->bytes;
  }

  error_code scan(const std::string& path, const piece_handler& on_piece) override {
    const auto whole = read(path, ~std::size_t{0});
    if (whole) on_piece(*whole);
    return whole ? error_code() : whole.error();
  }

  result<std::unique_ptr<worker::mapped_file>> map(const std::string& path) override {
    const auto whole = read(path, ~std::size_t{0});
    if (!whole) return whole.error();
    return std::unique_ptr<worker::mapped_file>(std::make_unique<copied>(*whole));
  }

  result<std::uint64_t> size(const std::string& path) override {
    const auto whole = read(path, ~std::size_t{0});
    if (!whole) return whole.error();
    return std::uint64_t{whole->size()};
  }

 private:
  struct inode {
    std::string bytes;
    std::optional<std::string> durable_bytes;
    bool is_folder = false;
  };
  struct copied : worker::mapped_file {
    explicit copied(std::string bytes) : whole(std::move(bytes)) {}
    std::string_view bytes() const override { return whole; }
    std::string whole;
  };
  class output : public worker::output_file {
   public:
    output(fault_file_system& of, std::shared_ptr<inode> made) : of_(of), made_(std::move(made)) {}
    error_code write(std::string_view bytes) override {
      const auto error = of_.step();
      made_->bytes += error ? bytes.substr(0, of_.random_() % (bytes.size() + 1)) : bytes;
      return error;
    }
    error_code finish() override {
      const auto error = of_.step();
      if (!of_.file_sync_lies_ && (!error || of_.half_done())) made_->durable_bytes = made_->bytes;
      return error;
    }

   private:
    fault_file_system& of_;
    std::shared_ptr<inode> made_;
  };
  using name_map = std::map<std::string, std::shared_ptr<inode>>;
  // Renames `from` to `to`; an empty `from` creates `to`, an empty `to` removes `from`.
  struct name_change {
    std::string from;
    std::string to;
    std::shared_ptr<inode> what;
  };

  error_code step() {
    const std::size_t now = steps_++;
    just_cut_ = false;
    if (cut_) return system_error(EIO);
    if (cut_step_ == now) {
      cut_ = just_cut_ = true;
      return system_error(EIO);
    }
    if (fail_step_ && now >= *fail_step_ && now - *fail_step_ < fail_count_) {
      return system_error(fail_number_);
    }
    return {};
  }

  // The step during which the power was cut may still have reached the disk.
  bool half_done() { return just_cut_ && random_() % 2 == 0; }

  std::shared_ptr<inode> create_inode(const std::string& path) {
    auto made = std::make_shared<inode>();
    change({"", path, made});
    return made;
  }

  static void apply(const name_change& change, name_map& names) {
    if (!change.from.empty()) names.erase(change.from);
    if (!change.to.empty()) names[change.to] = change.what;
  }
  static std::string above(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }
  bool may_come_back(const std::string& path) const {
    return std::any_of(changes_.begin(), changes_.end(), [&](const name_change& each) {
      return each.from == path && each.to.empty();
    });
  }
  void change(name_change change) {
    if (change.to.empty() && change.from.ends_with(".safetensors") &&
        may_come_back(above(change.from) + "/manifest.json")) {
      removed_too_early_.push_back(change.from);
    }
    apply(change, names_);
    changes_.push_back(std::move(change));
  }

  void tear(inode& torn) {
    if (torn.is_folder) return;
    if (!torn.durable_bytes || *torn.durable_bytes != torn.bytes) {
      torn.bytes.resize(random_() % (torn.bytes.size() + 1));
      if (random_() % 2 == 0) torn.bytes.assign(torn.bytes.size(), '\0');
    }
    torn.durable_bytes = torn.bytes;
  }

  name_map names_;
  name_map durable_names_;
  std::vector<name_change> changes_;  // since the last sync of their folder
  std::vector<std::string> removed_too_early_;
  std::map<std::string, int> unreadable_;
  std::mt19937 random_;
  std::size_t steps_ = 0;
  std::optional<std::size_t> fail_step_;
  int fail_number_ = 0;
  std::size_t fail_count_ = 1;
  std::optional<std::size_t> cut_step_;
  bool cut_ = false;
  bool just_cut_ = false;
  bool file_sync_lies_ = false;
  bool folder_sync_lies_ = false;
};

}  // namespace ddprun::tests
