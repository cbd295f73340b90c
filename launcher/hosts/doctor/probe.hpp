// Asks another node at one of its probe ports: whether it is reachable, which node answers, whether
// large packets pass, how far away it is, and what its clock says.
//
// Thread rule: any thread; blocks, within the limits.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "rendezvous/base/time.hpp"

#include <string>

namespace ddprun::launcher::doctor {

struct probe_limits {
  duration connect = std::chrono::seconds(3);  // long enough for one lost packet
  duration reply = std::chrono::seconds(3);
  duration bulk = std::chrono::seconds(4);
};

struct probe_target {
  std::string address;  // numeric
  std::uint16_t port = 0;
  std::string token;     // of the node that should answer
  bool is_main = false;  // also test bulk data, round trip and clock
};

struct probe_result {
  path_seen path;
  std::optional<std::int64_t> round_trip;
  std::optional<std::int64_t> clock_ahead;
};

probe_result probe(const probe_target& target, const probe_limits& limits = {});

// MiB/s from here to there, measured for about `time`; empty: not reached, or it broke off.
std::optional<double> measure_speed(const probe_target& target, duration time,
                                    const probe_limits& limits = {});

}  // namespace ddprun::launcher::doctor
