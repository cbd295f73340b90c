// An NCCL id (ncclUniqueId, NCCL_UNIQUE_ID_BYTES) consists of 8 secret bytes and the socket address
// where the ranks of a communicator meet; the rest is zero. Source: bootstrap.cc and nccl.h of NCCL
// 2.30, unchanged since 2.3.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

inline constexpr std::size_t nccl_id_bytes = 128;
using nccl_id = std::array<char, nccl_id_bytes>;

// Hexadecimal, without the trailing zero bytes: "0cc4c24dfba7e65d0200d63b...".
std::string nccl_id_text(const nccl_id& id);
// None if the text is not an id.
std::optional<nccl_id> nccl_id_from(std::string_view text);

// The address where its ranks meet, "10.0.0.1:41233"; empty if the id contains none.
std::string address_of(const nccl_id& id);

}  // namespace ddprun::worker
