// What this node finds out about the other nodes of a doctor's meeting: quick checks all at once,
// bandwidth one at a time.
//
// Thread rule: one thread; up to probe_threads_max others do the waiting, and it returns when they
// are done.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "launcher/hosts/doctor/doctor_meeting.hpp"

namespace ddprun::launcher::doctor {

// The limit of concurrent connections and look-ups.
inline constexpr std::size_t probe_threads_max = 32;
// How many addresses of a node are tried: its main one, and some that NCCL might choose.
inline constexpr std::size_t addresses_probed_max = 5;
inline constexpr std::chrono::seconds bandwidth_limit{20};  // for a whole tournament

std::map<std::uint32_t, peer_seen> examine_peers(const std::vector<node_card>& cards,
                                                 std::uint32_t own);

// Measures how fast data goes to each of `peers`.
void measure_speeds(meeting& others, std::map<std::uint32_t, peer_seen>& peers);

}  // namespace ddprun::launcher::doctor
