#include "tests/rendezvous/journal/fault_vfs.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <sqlite3.h>
#include <utility>

namespace ddprun::tests {
namespace {

fault_vfs* the_one = nullptr;

// What SQLite allocates for an open file; the part of the real file system lies behind it.
struct shim {
  sqlite3_file base;
  std::string* path;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

shim& of(sqlite3_file* file) {
  return *reinterpret_cast<shim*>(file);
}

int close(sqlite3_file* file) {
  shim& one = of(file);
  delete std::exchange(one.path, nullptr);
  return one.real()->pMethods->xClose(one.real());
}
int read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  return of(file).real()->pMethods->xRead(of(file).real(), to, size, offset);
}
int write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  if (const int code = the_one->judge(true)) return code;
  const int code = of(file).real()->pMethods->xWrite(of(file).real(), from, size, offset);
  const auto bytes = static_cast<std::size_t>(size);
  if (code == SQLITE_OK)
    the_one->wrote(*of(file).path, offset, {static_cast<const char*>(from), bytes});
  return code;
}
int truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (const int code = the_one->judge(true)) return code;
  const int code = of(file).real()->pMethods->xTruncate(of(file).real(), size);
  if (code == SQLITE_OK) the_one->truncated(*of(file).path, size);
  return code;
}
// This file decides what is on disk after a loss of power, so the real file system need not sync.
int sync(sqlite3_file* file, int) {
  if (const int code = the_one->judge(false)) return code;
  the_one->synced(*of(file).path);
  return SQLITE_OK;
}
int size_of(sqlite3_file* file, sqlite3_int64* size) {
  return of(file).real()->pMethods->xFileSize(of(file).real(), size);
}
int lock(sqlite3_file* file, int level) {
  return of(file).real()->pMethods->xLock(of(file).real(), level);
}
int unlock(sqlite3_file* file, int level) {
  return of(file).real()->pMethods->xUnlock(of(file).real(), level);
}
int is_reserved(sqlite3_file* file, int* result) {
  return of(file).real()->pMethods->xCheckReservedLock(of(file).real(), result);
}
int control(sqlite3_file* file, int what, void* with) {
  return of(file).real()->pMethods->xFileControl(of(file).real(), what, with);
}
int sector_size(sqlite3_file*) {
  return 512;
}
int traits(sqlite3_file*) {
  return 0;  // no promise about the device
}

constexpr sqlite3_io_methods methods = {
    1,       close,       read,   write, truncate, sync, size_of, lock, unlock, is_reserved,
    control, sector_size, traits, {},    {},       {},   {},      {},   {},
};

int open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out) {
  auto& one = *new (file) shim{};
  one.path = new std::string(path == nullptr ? "" : path);
  const int code = the_one->below().xOpen(&the_one->below(), path, one.real(), flags, out);
  if (code != SQLITE_OK) {
    delete std::exchange(one.path, nullptr);
    return code;
  }
  one.base.pMethods = &methods;
  return SQLITE_OK;
}
int remove(sqlite3_vfs*, const char* path, int) {
  if (const int code = the_one->judge(false)) return code;
  const int code = the_one->below().xDelete(&the_one->below(), path, 0);
  if (code == SQLITE_OK) the_one->deleted(path);
  return code;
}

sqlite3_vfs made{};

}  // namespace

fault_vfs::fault_vfs() : below_(sqlite3_vfs_find(nullptr)) {
  the_one = this;
  made = *below_;
  made.zName = name;
  made.szOsFile = static_cast<int>(sizeof(shim)) + below_->szOsFile;
  made.pNext = nullptr;
  made.xOpen = open;
  made.xDelete = remove;
  sqlite3_vfs_register(&made, 0);
}

fault_vfs::~fault_vfs() {
  sqlite3_vfs_unregister(&made);
  the_one = nullptr;
}

void fault_vfs::fail_after(std::uint64_t calls, fault_kind kind) {
  const std::lock_guard lock(mutex_);
  fails_at_ = calls_ + calls;
  kind_ = kind;
  armed_ = true;
  failed_ = false;
}

void fault_vfs::heal() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
  healed_.notify_all();
}

bool fault_vfs::has_failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::uint64_t fault_vfs::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

int fault_vfs::judge(bool is_write) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = calls_++;
  if (!armed_ || number < fails_at_) return SQLITE_OK;
  if (kind_ == fault_kind::stall) {
    failed_ = true;
    healed_.wait(lock, [this] { return !armed_; });
    return SQLITE_OK;
  }
  const bool lasts = kind_ == fault_kind::from_there || kind_ == fault_kind::power;
  if (number > fails_at_ && !lasts) return SQLITE_OK;
  failed_ = true;
  return kind_ == fault_kind::full_once && is_write ? SQLITE_FULL : SQLITE_IOERR;
}

std::string fault_vfs::content_of(const std::string& path) {
  std::string content(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), std::ssize(content));
  return content;
}

void fault_vfs::wrote(const std::string& path, std::int64_t offset, std::string bytes) {
  const std::lock_guard lock(mutex_);
  files_[path].since.push_back({offset, std::move(bytes), false});
}
void fault_vfs::truncated(const std::string& path, std::int64_t size) {
  const std::lock_guard lock(mutex_);
  files_[path].since.push_back({size, {}, true});
}
void fault_vfs::synced(const std::string& path) {
  const std::lock_guard lock(mutex_);
  files_[path] = {content_of(path), {}};
}
// A name that was removed stays removed, because SQLite syncs the folder.
void fault_vfs::deleted(const std::string& path) {
  const std::lock_guard lock(mutex_);
  files_.erase(path);
}

void fault_vfs::cut_power(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto& [path, one] : files_) {
    std::string content = one.content;
    for (const change& each : one.since) {
      const auto offset = static_cast<std::size_t>(each.offset);
      const std::uint64_t fate = random() % 4;
      if (fate == 0) continue;  // lost
      if (each.truncates) {
        content.resize(offset);
        continue;
      }
      // The write may be torn, because a device writes sectors.
      std::size_t size = each.bytes.size();
      if (fate == 1 && size > 512) size = 512 * (1 + random() % (size / 512));
      if (content.size() < offset + size) content.resize(offset + size);
      std::memcpy(content.data() + offset, each.bytes.data(), size);
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  files_.clear();
}

}  // namespace ddprun::tests
