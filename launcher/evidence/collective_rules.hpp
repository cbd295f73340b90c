// Finds ranks of a node that wait in calls that do not belong together. Ranks of a group call its
// collectives in one order, so one number is one collective.
//
// Thread rule: pure functions. The records are the caller's.
#pragma once

#include "launcher/evidence/flight_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::evidence {

struct ranked_record {
  std::uint32_t rank = 0;
  const flight_record* record = nullptr;
};

// Ranks that have called different collectives under one number, and wait in each of them.
struct collective_mismatch {
  struct call {
    std::string words;  // "all_reduce of float32[1024]"
    std::vector<std::uint32_t> ranks;
  };
  std::string number;       // "#5", "#5 of group mesh_dp"
  std::vector<call> calls;  // two or more, the one of most ranks last
};
// The first of all. Sizes count only where they have to be the same on all ranks.
std::optional<collective_mismatch> mismatch_of(const std::vector<ranked_record>& ranks);

// "ranks called different collectives as #5: rank 1 broadcast of int64[7, 3], ranks 0 and 2
// all_reduce of float32[1024]".
std::string sentence_of(const collective_mismatch& found);

}  // namespace ddprun::launcher::evidence
