// A file system for SQLite that fails at a chosen moment. Either one call fails, or every call from
// then on, or the power: then everything that was not synced may be lost, kept, or torn.
//
// It passes calls on to the system's own, with real files. Only one may exist at a time. Thread
// rule: any thread; but `cut_power` and the destructor, when no file is open.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

struct sqlite3_vfs;

namespace ddprun::tests {

enum class fault_kind {
  once,        // the call fails with an input/output error
  full_once,   // a write fails as on a full disk
  from_there,  // that and each further call fails
  power,       // as `from_there`; `cut_power` says what is left
  stall,       // that and each further call waits until `heal`
};

class fault_vfs {
 public:
  fault_vfs();
  ~fault_vfs();
  fault_vfs(const fault_vfs&) = delete;
  fault_vfs& operator=(const fault_vfs&) = delete;

  static constexpr const char* name = "ddprun-fault";

  // Fails the call that comes after `calls` more calls that change something: write, sync,
  // truncate, delete.
  void fail_after(std::uint64_t calls, fault_kind kind);
  void heal();
  bool has_failed() const;
  std::uint64_t calls() const;

  // Leaves of each file what was synced, and a random part of what was written after that.
  void cut_power(std::uint64_t seed);

  // For the functions that SQLite calls.
  int judge(bool is_write);
  void wrote(const std::string& path, std::int64_t offset, std::string bytes);
  void truncated(const std::string& path, std::int64_t size);
  void synced(const std::string& path);
  void deleted(const std::string& path);
  sqlite3_vfs& below() { return *below_; }

 private:
  struct change {
    std::int64_t offset = 0;
    std::string bytes;
    bool truncates = false;
  };
  struct file {
    std::string content;  // as of the last sync
    std::vector<change> since;
  };
  static std::string content_of(const std::string& path);

  sqlite3_vfs* below_;
  mutable std::mutex mutex_;
  std::condition_variable healed_;
  std::map<std::string, file> files_;
  std::uint64_t calls_ = 0;
  std::uint64_t fails_at_ = 0;
  fault_kind kind_ = fault_kind::once;
  bool armed_ = false;
  bool failed_ = false;
};

}  // namespace ddprun::tests
