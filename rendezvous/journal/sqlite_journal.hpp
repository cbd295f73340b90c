// A journal in an SQLite file, written by a thread of its own, so that no loop waits for a disk.
//
// Changes that arrive during a write go together into the next one. A failed write is tried again
// every second, together with newer changes; one that takes longer than `patience` counts as failed
// meanwhile.
//
// Thread rule: created, used and destroyed on the thread of the executor; handlers are called from
// its loop, and not after destruction. Ownership: owns the file. Unwritten changes are tried once
// more at destruction, for at most `patience`.
#pragma once

#include "rendezvous/journal/journal.hpp"
#include "rendezvous/journal/sqlite_file.hpp"
#include "rendezvous/net/net_types.hpp"

#include <chrono>
#include <memory>

namespace ddprun::journal {

struct sqlite_options {
  std::string folder;
  // Limits for opening the file, without which the records of an earlier daemon are lost to this
  // one, and for each write.
  std::chrono::milliseconds open_patience{5000};
  std::chrono::milliseconds patience{1000};
  std::chrono::milliseconds retry_interval{1000};
  std::chrono::milliseconds alive_interval{ddprun::journal::alive_interval};
  // Whether the folder is removed with the journal if all its runs have succeeded.
  bool is_removed_when_done = false;
  const char* vfs = nullptr;  // for tests, as is the next one
  host_clock clock = host_now;
};

class sqlite_journal final : public journal {
 public:
  // Waits for the disk, for at most `open_patience`. Null: `failure` says why.
  static std::unique_ptr<sqlite_journal> open(net::executor where, const sqlite_options& options,
                                              handlers told, open_failure& failure);
  // Does not wait: `opened` is called after at most `open_patience`.
  static std::unique_ptr<sqlite_journal> open_in_background(net::executor where,
                                                            const sqlite_options& options,
                                                            handlers told, opened_handler opened,
                                                            open_failure& failure);
  // A journal that has not opened yet is not written or waited for.
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

// Openers of such a journal, with the values above.
opener in_folder(std::string folder, bool is_removed_when_done = false);
background_opener in_folder_in_background(std::string folder, bool is_removed_when_done = false);

}  // namespace ddprun::journal
