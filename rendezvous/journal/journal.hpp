// A journal keeps run records where they outlive the daemon.
//
// It holds state, not events: of a run the newest record replaces the one before, whether or not
// that was written. What cannot be written is kept and tried again, and the daemon goes on in
// memory meanwhile: `health` says so.
//
// Thread rule: one thread, that of the executor of the implementation; handlers come from there.
#pragma once

#include "rendezvous/core/run/run_record.hpp"
#include "rendezvous/net/types.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::journal {

struct handlers {
  // All that was written up to and including the change `number` is kept, or will not be for now
  // (`health` was called then): nothing need wait for it any longer. Numbers grow.
  std::function<void(std::uint64_t number)> persisted;
  // The first and each other state: empty: well, else one line that says what is wrong, where, and
  // what to do.
  std::function<void(const std::string& problem)> health;
};

class journal;

// Why there is none, in one line.
struct open_failure {
  std::string problem;
  bool is_taken = false;  // another daemon has it
};

// Null: `failure` says why.
using opener = std::function<std::unique_ptr<journal>(const net::executor& where, handlers told,
                                                      open_failure& failure)>;

// The same without a wait for the disk: it may be used once `opened` has come from the loop without
// a problem, and is to be destroyed where one came. Null: `failure` says why at once.
using opened_handler = std::function<void(const open_failure& failure)>;
using background_opener = std::function<std::unique_ptr<journal>(
    const net::executor& where, handlers told, opened_handler opened, open_failure& failure)>;

class journal {
 public:
  virtual ~journal() = default;

  // What was there when it was opened; once.
  virtual std::vector<core::run_record> take_loaded() = 0;

  // Each gives the number of the change, from 1 on.
  virtual std::uint64_t keep(core::run_record record) = 0;
  virtual std::uint64_t forget(const std::string& run_id) = 0;
};

}  // namespace ddprun::journal
