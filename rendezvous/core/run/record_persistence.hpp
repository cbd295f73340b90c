// What this daemon has asked for to be kept of a run, and whether it is: each is asked for once, by
// number, and all up to a number are kept together.
#pragma once

#include "rendezvous/core/run/run_record.hpp"

#include <cstdint>
#include <optional>

namespace ddprun::core {

class record_persistence {
 public:
  // What an earlier daemon has kept.
  void begin_with(const run_record& record) { newest_ = record; }
  // The number to ask with; none where that was asked for last.
  std::optional<std::uint64_t> ask(const std::optional<run_record>& record);
  void set_persisted(std::uint64_t revision);
  bool is_kept(const std::optional<run_record>& record) const;

 private:
  std::optional<run_record> newest_;  // that was asked for
  std::uint64_t revision_ = 0;        // its number
  std::uint64_t kept_ = 0;
};

}  // namespace ddprun::core
