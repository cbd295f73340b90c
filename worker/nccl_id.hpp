// An id of NCCL (ncclUniqueId, NCCL_UNIQUE_ID_BYTES): a secret number of 8 bytes, then the address
// where the ranks of one communicator meet, as a socket address of the system; the rest is zero.
// Source: bootstrap.cc and nccl.h of NCCL 2.30; so since 2.3.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

inline constexpr std::size_t nccl_id_bytes = 128;
using nccl_id = std::array<char, nccl_id_bytes>;

// Hexadecimal, without the zeros at the end, of which an id is full: "0cc4c24dfba7e65d0200d63b...".
std::string nccl_id_text(const nccl_id& id);
// None: that is no id.
std::optional<nccl_id> nccl_id_from(std::string_view text);

// Where its ranks meet, "10.0.0.1:41233"; empty where that cannot be told.
std::string address_of(const nccl_id& id);

}  // namespace ddprun::worker
