// The database of a journal: one table of run records in one file, in a folder of its own.
//
// Each `write` is one transaction that is on the disk when it returns, or has not happened: the
// file is in WAL mode with full synchronisation. It is locked for as long as it is open: a second
// daemon is told so. When no daemon has it, any tool reads it: sqlite3 journal.sqlite 'SELECT *
// FROM runs'.
//
// Thread rule: one thread at a time. Errors: one line with the file, what SQLite said
// and what to do; no exception.
#pragma once

#include "rendezvous/journal/journal.hpp"
#include "rendezvous/journal/record_age.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace ddprun::journal {

// The record of a run; none: forget it.
using change = std::pair<std::string, std::optional<core::run_record>>;

using host_clock = std::function<host_moment()>;

class sqlite_file {
 public:
  // Makes folder and file where they are missing. For tests: `vfs`, SQLite's name of another file
  // system (null: the system's), and another clock.
  static std::unique_ptr<sqlite_file> open(const std::string& folder, open_failure& failure,
                                           const char* vfs = nullptr,
                                           const host_clock& clock = host_now);
  ~sqlite_file();
  sqlite_file(const sqlite_file&) = delete;
  sqlite_file& operator=(const sqlite_file&) = delete;

  // By run id, without those that are too old to count. None: `problem` says why.
  std::optional<std::vector<core::run_record>> read(std::string& problem);
  bool write(const std::vector<change>& changes, std::string& problem);

  // Nothing in it is needed by anybody: each run has ended well, and none of its nodes may live.
  bool is_done();
  // Leaves word that the daemon which keeps these records is alive.
  bool show_alive();

  const std::string& path() const { return path_; }
  // The file with all that belongs to it, and the folder where nothing else is in it. Closed, and
  // the folder locked by the caller, whose lock goes, too.
  static void remove(const std::string& folder);
  static std::string path_in(const std::string& folder) { return folder + "/journal.sqlite"; }

 private:
  struct closing {
    void operator()(sqlite3* database) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  using statement = std::unique_ptr<sqlite3_stmt, closing>;

  sqlite_file(std::string path, host_clock clock)
      : path_(std::move(path)), clock_(std::move(clock)) {}
  bool prepare(open_failure& failure);
  bool execute(const char* words);
  statement compile(const char* words);
  bool apply(const change& one);
  bool keep_past(const std::string& run_id, const shared_list<core::past_end>& past);
  bool read_past(core::run_record& record);
  std::string trouble(const std::string& what) const;

  std::string path_;
  host_clock clock_;
  std::unique_ptr<sqlite3, closing> database_;
  statement keep_;
  statement forget_;
  statement live_;
  statement keep_past_;
  statement forget_past_;
};

}  // namespace ddprun::journal
