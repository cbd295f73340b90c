// NCCL's unique ids of a round: in leader_data, as the leader sends them to the other nodes, and in
// DDPRUN_NCCL_IDS, as workers get them. With them workers open communicators without a store or a
// file. Each id is good for one communicator, in one round.
//
// Thread rule: pure functions.
#pragma once

#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

inline constexpr std::size_t nccl_ids_max = 8;  // in leader_data; more are in the job store

// The key for all ids there, separated by commas; DDPRUN_NCCL_IDS is then "store:" and this key.
inline constexpr std::string_view nccl_ids_key = "ddprun/nccl_ids";

struct nccl_round_ids {
  std::vector<std::string> first;  // hexadecimal, without trailing zeros; at most nccl_ids_max
  std::uint32_t count = 0;         // of all ids; 0: the round has none
  std::uint32_t version = 0;       // NCCL_VERSION_CODE of the NCCL that made them
  bool operator==(const nccl_round_ids&) const = default;
};

// Separated by commas, as in leader_data and DDPRUN_NCCL_IDS.
std::string nccl_ids_text(const std::vector<std::string>& ids);

// Includes the first nccl_ids_max of `ids`. `address`: where the ranks of the first id meet. Empty
// if there are no ids.
leader_data to_leader_data(const std::vector<std::string>& ids, std::uint32_t version,
                           const std::string& address);

// Empty data has no ids. Returns one line about what is wrong, or nothing.
std::string read_nccl_ids(const leader_data& given, nccl_round_ids& ids);

}  // namespace ddprun::launcher
