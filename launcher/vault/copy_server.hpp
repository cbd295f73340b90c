// A copy server answers the vaults of the job's other nodes: it keeps copies of what they save, and
// returns any entry that this node has (peer_calls.hpp has the protocol).
//
//   DIR/copy-of-node-3/   the newest two entries that node 3 has sent us
//
// A caller that does not know the token is disconnected, after `stranger_limit` at the latest. At
// most `callers_max` are served at a time, and data is read in pieces of bounded size.
//
// Thread rule: a thread that accepts and one for each caller. They hold the desk, and end by
// themselves when the server is destroyed or their caller is silent. Errors: `problem`.
#pragma once

#include "launcher/vault/desk.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::launcher::vault {

inline constexpr std::size_t copies_kept = 2;  // of each other node

std::string copy_folder(std::uint32_t group_rank);

class copy_server {
 public:
  // `port` 0 takes a free one. Returns null if it cannot listen.
  static std::unique_ptr<copy_server> start(std::shared_ptr<desk> shared, std::uint16_t port,
                                            std::string& problem);
  ~copy_server();
  copy_server(const copy_server&) = delete;
  copy_server& operator=(const copy_server&) = delete;

  std::uint16_t port() const { return port_; }
  const std::string& token() const { return token_; }

 private:
  copy_server(unique_fd listener, std::uint16_t port, std::string token);

  unique_fd listener_;
  std::uint16_t port_;
  std::string token_;
};

}  // namespace ddprun::launcher::vault
