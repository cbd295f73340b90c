// What a simulated daemon keeps on its host's disk, and how that fares: writes take their time, a
// daemon dies in the middle of one, a disk fails, a folder is deleted or an old copy of it put
// back.
//
// As the real one (rendezvous/journal): what comes while a write is under way goes into the next
// one together; one that fails, or takes longer than a second, is said to be done with, and tried
// again.
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
  kept,         // what is written lasts
  lost,         // now and then it is deleted when a daemon ends
  rolled_back,  // now and then it is as it was once, when a daemon ends
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
  // Never for longer than it is waited for, unless it fails.
  duration writing_takes();
  bool fails(moment now) const { return now >= fails_from_ && now < fails_until_; }
  bool hangs(moment now) const { return fails(now) && hangs_; }
  moment fails_until() const { return fails_until_; }
  random_source& random() { return random_; }
  // A daemon ends, or begins, and could not write.
  void miss_changes() { ++tampered_; }
  // It was deleted, put back from an old copy, or could not be written, so often.
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
  // The daemon ends. Killed in the middle of a write, that has been done or has not.
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
