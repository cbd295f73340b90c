// The database of a journal: a table of run records and one of past ends in a file, in a folder of
// its own.
//
// Each `write` is one transaction, which is on the disk when it returns, or has not happened: the
// file is in WAL mode with full synchronisation. It is locked while it is open, so a second daemon
// gets an error. When no daemon has it, any tool can read it: sqlite3 journal.sqlite 'SELECT * FROM
// runs'.
//
// Thread rule: one thread at a time. Errors: one line with the file, SQLite's error and what to do;
// no exceptions.
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

// The new record of a run; empty: delete it.
using change = std::pair<std::string, std::optional<core::run_record>>;

using host_clock = std::function<host_moment()>;

class sqlite_file {
 public:
  // Creates the folder and the file if they are missing. For tests: `vfs`, SQLite's name of another
  // file system (null: the system's), and another clock.
  static std::unique_ptr<sqlite_file> open(const std::string& folder, open_failure& failure,
                                           const char* vfs = nullptr,
                                           const host_clock& clock = host_now);
  ~sqlite_file();
  sqlite_file(const sqlite_file&) = delete;
  sqlite_file& operator=(const sqlite_file&) = delete;

  // Sorted by run id, without records that are too old. Empty: `problem` says why.
  std::optional<std::vector<core::run_record>> read(std::string& problem);
  bool write(const std::vector<change>& changes, std::string& problem);

  // True if these records are no longer needed: each run has succeeded, and none of its nodes can
  // be alive.
  bool is_done();
  // Records that the daemon of these records is alive.
  bool show_alive();

  const std::string& path() const { return path_; }
  // Deletes the file with its side files, and the folder if nothing else is in it. The file must be
  // closed, and the folder locked by the caller; the lock file is deleted too.
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
  bool write_past(const std::string& run_id, const shared_list<core::past_end>& past);
  bool read_past(core::run_record& record);
  std::string trouble(const std::string& what) const;

  std::string path_;
  host_clock clock_;
  std::unique_ptr<sqlite3, closing> database_;
  statement insert_;
  statement forget_;
  statement live_;
  statement insert_past_;
  statement forget_past_;
};

}  // namespace ddprun::journal
