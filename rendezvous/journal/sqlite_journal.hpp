// A journal in a file of SQLite, written by a thread of its own: no loop waits for a disk.
//
// What comes while a write is under way goes into the next one together. A write that fails is
// tried again every second, with what has come since; one that takes longer than `patience` counts
// as failed meanwhile.
//
// Thread rule: made, used and destroyed on the thread of the executor; handlers come from its loop,
// none after destruction. Ownership: of the file; what has not been written at destruction is tried
// once more, for `patience` at most.
#pragma once

#include "rendezvous/journal/journal.hpp"
#include "rendezvous/journal/sqlite_file.hpp"
#include "rendezvous/net/types.hpp"

#include <chrono>
#include <memory>

namespace ddprun::journal {

struct sqlite_options {
  std::string folder;
  // Of the first look, without which what an earlier daemon has kept is lost to this one; and of
  // each write.
  std::chrono::milliseconds open_patience{5000};
  std::chrono::milliseconds patience{1000};
  std::chrono::milliseconds retry_interval{1000};
  std::chrono::milliseconds alive_interval{ddprun::journal::alive_interval};
  // The folder goes with the journal where all its runs have ended well.
  bool is_removed_when_done = false;
  const char* vfs = nullptr;  // for tests, as is this
  host_clock clock = host_now;
};

class sqlite_journal final : public journal {
 public:
  // Null: `failure` says why. Waits for the disk for `open_patience` at most.
  static std::unique_ptr<sqlite_journal> open(net::executor where, const sqlite_options& options,
                                              handlers told, open_failure& failure);
  // Waits for nothing: `opened` comes after `open_patience` at the latest.
  static std::unique_ptr<sqlite_journal> open_in_background(net::executor where,
                                                            const sqlite_options& options,
                                                            handlers told, opened_handler opened,
                                                            open_failure& failure);
  // Of one that has not opened yet nothing is written, or waited for.
  ~sqlite_journal() override;

  std::vector<core::run_record> take_loaded() override;
  std::uint64_t keep(core::run_record record) override;
  std::uint64_t forget(const std::string& run_id) override;

 private:
  struct state;
  explicit sqlite_journal(std::shared_ptr<state> shared);
  static std::unique_ptr<sqlite_journal> begin(std::shared_ptr<state> shared,
                                               open_failure& failure);
  std::shared_ptr<state> state_;
};

// Opens such a one, with the values above.
opener in_folder(std::string folder, bool is_removed_when_done = false);
background_opener in_folder_in_background(std::string folder, bool is_removed_when_done = false);

}  // namespace ddprun::journal
