// What this node finds out about each other one of a doctor's meeting: all at once for what is
// quick, one at a time for how fast data goes.
//
// Thread rule: one thread; it has `threads_max` others do the waiting, and is back when they are.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "launcher/hosts/doctor/meeting.hpp"

namespace ddprun::launcher::doctor {

// At most so many connections and look-ups are under way at a time.
inline constexpr std::size_t probe_threads_max = 32;
// Of one node: its main one, and some that NCCL might take.
inline constexpr std::size_t addresses_probed_max = 5;
inline constexpr std::chrono::seconds bandwidth_limit{20};  // for all of a tournament

std::map<std::uint32_t, peer_seen> examine_peers(const std::vector<node_card>& cards,
                                                 std::uint32_t own);

// Fills in how fast data goes to each of `peers`.
void measure_speeds(meeting& others, std::map<std::uint32_t, peer_seen>& peers);

}  // namespace ddprun::launcher::doctor
