// What a simulated daemon keeps on its host's disk, and what may happen to it: writes take time, a
// daemon dies in the middle of one, a disk fails, the folder is deleted or replaced by an old copy.
//
// Like the real journal (rendezvous/journal), it writes all changes that arrive during a write
// together in the next one. If a write fails, or takes longer than a second, the daemon is told not
// to wait for it, and it is tried again.
//
// Ownership: the world owns folders, a daemon its journal.
#pragma once

#include "rendezvous/core/daemon/daemon_machine.hpp"
#include "tests/simulation/random_source.hpp"
#include "tests/simulation/timeline.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::simulation {

class world;
class daemon;

enum class journal_kind {
  none,         // daemons keep nothing
  kept,         // what was written is never lost
  lost,         // now and then it is deleted when a daemon ends
  rolled_back,  // now and then an old copy replaces it when a daemon ends
  failing,      // for a while, or for good, nothing can be written, or nothing answers
};
const char* to_text(journal_kind kind);

// The state folder of a host's daemons.
class state_folder {
 public:
  state_folder(journal_kind kind, unsigned slow_percent, random_source random);

  using records = std::map<std::string, core::run_record>;
  using changes = std::map<std::string, std::optional<core::run_record>>;

  const records& found() const { return newest_; }
  void write(const changes& what);
  void daemon_ended();
  // Never longer than the daemon waits for it, unless the disk fails.
  duration writing_takes();
  bool fails(moment now) const { return now >= fails_from_ && now < fails_until_; }
  bool hangs(moment now) const { return fails(now) && hangs_; }
  moment fails_until() const { return fails_until_; }
  random_source& random() { return random_; }
  // A daemon ended, or started, and could not write.
  void miss_changes() { ++tampered_; }
  // How often it was deleted, replaced by an old copy, or could not be written.
  std::uint64_t tampered() const { return tampered_; }

 private:
  journal_kind kind_;
  unsigned slow_percent_;
  random_source random_;
  records newest_;
  std::vector<records> older_;
  moment fails_from_ = moment::max();
  moment fails_until_ = moment::max();
  bool hangs_ = false;
  std::uint64_t tampered_ = 0;
};

class journal {
 public:
  journal(world& in, daemon& of, state_folder& on) : world_(in), daemon_(of), folder_(on) {}

  void keep(const core::persist_run_record& change);
  // The daemon ends. If it is killed in the middle of a write, that write may or may not be on
  // disk.
  void end(bool killed);

 private:
  void begin_write();
  void end_write(bool failed);
  void settle(std::uint64_t number, bool failed);
  void be_patient();

  world& world_;
  daemon& daemon_;
  state_folder& folder_;
  state_folder::changes waiting_;
  state_folder::changes writing_;
  bool is_writing_ = false;
  bool ended_ = false;
  bool unwell_ = false;
  std::uint64_t writing_to_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t patience_ = 0;  // counts its timers
};

}  // namespace ddprun::simulation
