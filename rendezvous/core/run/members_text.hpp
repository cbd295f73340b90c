// Says which ranks are on which node of a round, in a sentence that is bounded whatever the size of
// the world: every member gets it with its own rank, and shows it.
//
//   ranks 0-1 on node-a (10.0.0.1), 2-3 on node-b (10.0.0.2) and 14 more nodes with 28 workers
#pragma once

#include "rendezvous/core/run/master_address.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::core {

// A restart costs a member 1 KiB in all.
inline constexpr std::size_t members_text_max = 256;
inline constexpr std::size_t members_named_max = 6;

struct named_member {
  std::string_view label;
  std::string_view address;  // as people know it; empty: not known
  std::uint32_t rank_first = 0;
  std::uint32_t worker_count = 1;
};

// `first` are the first members in group rank order, of `nodes` with `world_size` workers in all. A
// round of one node has no use for an address.
std::string members_text(const std::vector<named_member>& first, std::uint32_t nodes,
                         std::uint32_t world_size);

// The address by which people know a node: the given one, else one that leads there from other
// hosts, else any. `daemon_host` is the address at which others have reached the daemon's host,
// which is also that of a node that comes by loopback; empty: not known.
std::string_view known_address(const node_addresses& node, std::string_view daemon_host);

}  // namespace ddprun::core
