// NCCL's unique ids of a round: as its leader gives them to the other nodes, which is what its
// leader_data holds, and as workers have them in DDPRUN_NCCL_IDS. With them workers open their
// communicators without a store or a file; each is good for one communicator, in one round.
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

// The key of all of them there, with commas between; DDPRUN_NCCL_IDS is then "store:" and this.
inline constexpr std::string_view nccl_ids_key = "ddprun/nccl_ids";

struct nccl_round_ids {
  std::vector<std::string> first;  // hexadecimal, without zeros at the end; at most nccl_ids_max
  std::uint32_t count = 0;         // of all; 0: the round has none
  std::uint32_t version = 0;       // of the NCCL that made them, as its NCCL_VERSION_CODE
  bool operator==(const nccl_round_ids&) const = default;
};

// As both have them: with commas between.
std::string nccl_ids_text(const std::vector<std::string>& ids);

// Takes the first nccl_ids_max of `ids`. `address`: where the ranks of the first one meet. Nothing
// where there are none.
leader_data to_leader_data(const std::vector<std::string>& ids, std::uint32_t version,
                           const std::string& address);

// None in what says nothing. Gives one line that says what is wrong, or nothing.
std::string read_nccl_ids(const leader_data& given, nccl_round_ids& ids);

}  // namespace ddprun::launcher
