// One machine's view of a folder on NFS, as shown by Linux's client: it caches which names exist in
// a folder and which do not, and does not ask the server again for `kept`. It models these
// properties of Linux (fs/nfs/dir.c):
//
// - A name that was looked up too early "does not exist" until the client notices that the folder
// has changed (nfs_neg_need_reval). It fetches the folder's attributes after `kept`, or when the
// folder is listed. The client's own changes do not count: the server's reply says whether another
// client's change came in between, and only then is everything fetched again (fs/nfs/nfs4proc.c,
// nfs4_update_changeattr_locked). A cached name may be another file by now: reading it returns
// ESTALE.
// - Listing asks the server, because opendir() does (close-to-open), but not on a mount with
// `nocto`. A long listing takes several requests, between which the folder may change: of two new
// names it may have the later one alone (fs/nfs/dir.c, nfs_readdir_xdr_to_array).
// - The server decides on an exclusive create; removing a name that is cached as absent does not
// reach the server.
// - A file that is removed by the machine that has it mapped becomes .nfs... in its folder until it
// is unmapped (silly rename).
//
// Thread rule: that of the server, one thread at a time. Time only passes in pause().
#pragma once

#include "tests/worker/snapshot/fault_file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::tests {

// What the machines share: the files, and the number of changes of each folder.
struct nfs_server {
  fault_file_system& disk;
  std::mutex& mutex;
  std::map<std::string, std::size_t> changes = {};

  // Counts as a change of every folder, so that caches are outdated once they ask.
  void restart() {
    for (auto& [folder, count] : changes)
      ++count;
  }
};

class nfs_client : public worker::file_system {
 public:
  static constexpr std::chrono::seconds kept{30};  // Linux's acdirmin

  // The next listing that asks the server and would have this name was under way when the name
  // appeared, in a part of the folder that had been read before.
  std::string missed_by_listing;

  // The caller holds the mutex; a mapping locks it when it is released.
  nfs_client(nfs_server& server, bool nocto)
      : shared_(server), server_(server.disk), nocto_(nocto) {}

  error_code make_folder(const std::string& path, bool& made) override {
    const auto error = server_.make_folder(path, made);
    if (made) {
      has_changed(path, true);
    } else if (!error) {
      folders_[above(path)].names[path] = true;
    }
    return error;
  }
  result<std::unique_ptr<worker::output_file>> create(const std::string& path) override {
    auto made = server_.create(path);
    if (made) has_changed(path, true);
    return made;
  }
  error_code rename_to_new(const std::string& from, const std::string& to) override {
    if (auto error = look_up(from)) return error;
    const auto error = server_.rename_to_new(from, to);
    if (error) return error;
    has_changed(from, false);
    has_changed(to, true);
    return {};
  }
  error_code remove(const std::string& path) override {
    if (auto error = look_up(path)) return error;
    if (is_mapped(path)) {
      const std::string silly = above(path) + "/.nfs" + std::to_string(++silly_names_);
      if (auto error = server_.rename_to_new(path, silly)) return error;
      mapped_at(path)->silly_name = silly;
    } else if (auto error = server_.remove(path)) {
      return error;
    }
    has_changed(path, false);
    return {};
  }
  error_code remove_folder(const std::string& path) override {
    if (auto error = look_up(path)) return error;
    const auto error = server_.remove_folder(path);
    if (!error) has_changed(path, false);
    return error;
  }
  error_code sync_folder(const std::string& path) override {
    if (auto error = look_up(path)) return error;
    return server_.sync_folder(path);
  }
  result<std::vector<std::string>> list(const std::string& path) override {
    if (auto error = look_up(path)) return error;
    auto& folder = folders_[path];
    if (nocto_ && folder.until > now_ && folder.listed) return *folder.listed;
    auto names = server_.list(path);
    if (!names) return names;
    if (std::erase(*names, missed_by_listing) != 0) missed_by_listing.clear();
    fetch_attributes(path);
    folder.listed = *names;
    return names;
  }
  result<std::string> read(const std::string& path, std::size_t bytes_max) override {
    if (auto error = look_up(path)) return error;
    return stale_if_gone(server_.read(path, bytes_max));
  }
  error_code scan(const std::string& path, const piece_handler& on_piece) override {
    const auto whole = read(path, ~std::size_t{0});
    if (whole) on_piece(*whole);
    return whole ? error_code() : whole.error();
  }
  result<std::unique_ptr<worker::mapped_file>> map(const std::string& path) override {
    auto whole = read(path, ~std::size_t{0});
    if (!whole) return whole.error();
    auto made = std::make_unique<mapping>(*this, std::move(*whole));
    made->path = path;
    mappings_.push_back(made.get());
    return std::unique_ptr<worker::mapped_file>(std::move(made));
  }
  result<std::uint64_t> size(const std::string& path) override {
    if (auto error = look_up(path)) return error;
    return stale_if_gone(server_.size(path));
  }
  std::chrono::milliseconds names_kept(const std::string&) override { return kept; }
  void pause(std::chrono::milliseconds length) override { now_ += length; }

 private:
  struct folder {
    std::chrono::milliseconds until{};  // its attributes are valid until then
    std::size_t changes = 0;            // known to this machine
    std::map<std::string, bool> names;  // those that were looked up, and whether they exist
    std::optional<std::vector<std::string>> listed;
  };
  struct mapping : worker::mapped_file {
    mapping(nfs_client& of, std::string bytes) : client(of), whole(std::move(bytes)) {}
    ~mapping() override {
      const std::lock_guard lock(client.shared_.mutex);
      std::erase(client.mappings_, this);
      if (!silly_name.empty()) (void)client.server_.remove(silly_name);
    }
    std::string_view bytes() const override { return whole; }
    nfs_client& client;
    std::string whole;
    std::string path;
    std::string silly_name;
  };

  static std::string above(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }
  template <typename Value>
  static result<Value> stale_if_gone(result<Value> found) {
    if (!found && is_system_error(found.error(), ENOENT)) return system_error(ESTALE);
    return found;
  }
  mapping* mapped_at(const std::string& path) {
    const auto found = std::find_if(mappings_.begin(), mappings_.end(),
                                    [&](const mapping* each) { return each->path == path; });
    return found == mappings_.end() ? nullptr : *found;
  }
  bool is_mapped(const std::string& path) { return mapped_at(path) != nullptr; }

  // Looks up the path, and first its parents. ENOENT if this machine believes that it does not
  // exist.
  error_code look_up(const std::string& path) {
    if (path == ".") return {};
    const std::string place = above(path);
    if (place != ".") {
      if (auto error = look_up(place)) return error;
    }
    auto& in = folders_[place];
    if (in.until <= now_) fetch_attributes(place);
    const auto [name, is_new] = in.names.try_emplace(path, false);
    if (is_new) name->second = server_.exists(path);
    return name->second ? error_code() : system_error(ENOENT);
  }
  // Drops the cached names if another machine has changed the folder.
  void fetch_attributes(const std::string& place) {
    auto& known = folders_[place];
    if (known.changes != shared_.changes[place]) known = {};
    known.changes = shared_.changes[place];
    known.until = now_ + kept;
  }
  // Records a change by this machine, whose reply from the server includes the folder's attributes.
  void has_changed(const std::string& path, bool is_there) {
    const std::string place = above(path);
    fetch_attributes(place);
    auto& known = folders_[place];
    known.changes = ++shared_.changes[place];
    known.listed.reset();
    known.names[path] = is_there;
    if (is_there) folders_.erase(path);
  }

  nfs_server& shared_;
  fault_file_system& server_;
  bool nocto_;
  std::chrono::milliseconds now_{};
  std::map<std::string, folder> folders_;
  std::vector<mapping*> mappings_;
  std::size_t silly_names_ = 0;
};

}  // namespace ddprun::tests
