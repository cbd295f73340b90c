// What a vault asks of another node's vault: to keep a copy, to send one back, to know that it
// saves.
//
// Each call is a connection. It begins with "ddprun-vault 2 TOKEN", the token that the other node
// has put into the job's store, and one line:
//
//   saves OF                    -> ok
//   put OF, then an entry's head -> have | send, then the entry follows | no WHY
//                               -> kept | no WHY
//   get OF ORDER NAME           -> an entry | no WHY
//
// OF is the group rank of the node whose entry it is.
//
// Thread rule: a thread that may block. Errors: `problem`.
#pragma once

#include "launcher/vault/entry_stream.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun::launcher::vault {

inline constexpr std::string_view greeting = "ddprun-vault 2 ";

// Where another node's copies are served.
struct peer {
  std::uint32_t group_rank = 0;
  std::string address;
  std::uint16_t port = 0;
  std::string token;
  bool operator==(const peer&) const = default;
};

outcome tell_saver(const peer& other, std::uint32_t of);
outcome put_entry(const peer& other, std::uint32_t of, const sent_entry& one, const pace& go_on);
// As many tries as there are places where a node may have the entry: after a damaged copy, the next
// one is sent.
inline constexpr int get_tries = 3;
// Gets an entry into a vault's folder in memory, completely or not at all, replacing the one of its
// name. `has_room` is asked with its size before anything is received. `from` returns its origin.
// If the connection breaks off, it tries again, `get_tries` times in all.
outcome get_entry(const peer& other, std::uint32_t of, const version& what, int memory,
                  const std::function<bool(std::uint64_t bytes)>& has_room, origin& from,
                  const pace& go_on);

}  // namespace ddprun::launcher::vault
