// A journal persists run records, so that they outlive the daemon.
//
// It holds state, not events: the newest record of a run replaces the previous one, whether or not
// that was written. What cannot be written is tried again, and the daemon continues in memory
// meanwhile; `health` reports that.
//
// Thread rule: one thread, that of the implementation's executor; handlers are called there.
#pragma once

#include "rendezvous/core/run/run_record.hpp"
#include "rendezvous/net/net_types.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::journal {

struct handlers {
  // Every change up to `number` is on the disk, or cannot be written for now (`health` was called
  // then), so nothing needs to wait for it any longer. Numbers grow.
  std::function<void(std::uint64_t number)> persisted;
  // Reports the first state and each change of it: empty if all is well, otherwise one line that
  // says what is wrong, where, and what to do.
  std::function<void(const std::string& problem)> health;
};

class journal;

// Why the journal cannot be opened, in one line.
struct open_failure {
  std::string problem;
  bool is_taken = false;  // another daemon has it
};

// Returns null if it cannot be opened, and `failure` says why.
using opener = std::function<std::unique_ptr<journal>(const net::executor& where, handlers told,
                                                      open_failure& failure)>;

// The same without waiting for the disk. The journal may be used once `opened` was called from the
// loop without a problem, and must be destroyed if it had one. Null: `failure` says why at once.
using opened_handler = std::function<void(const open_failure& failure)>;
using background_opener = std::function<std::unique_ptr<journal>(
    const net::executor& where, handlers told, opened_handler opened, open_failure& failure)>;

class journal {
 public:
  virtual ~journal() = default;

  // The records found when it was opened. Call it once.
  virtual std::vector<core::run_record> take_loaded() = 0;

  // Both return the number of the change, counted from 1.
  virtual std::uint64_t keep(core::run_record record) = 0;
  virtual std::uint64_t forget(const std::string& run_id) = 0;
};

}  // namespace ddprun::journal
