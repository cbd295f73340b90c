// A copy server answers the vaults of the run's other nodes: it keeps copies of what they save, and
// gives back what is here of anybody's (peer_calls.hpp has the words).
//
//   DIR/copy-of-node-3/   what node 3 has asked us to keep, the newest two
//
// Who does not know its token is turned away, after `stranger_limit` at the latest; at most
// `callers_max` are served at a time, and each is read a piece at a time.
//
// Thread rule: a thread that accepts and one for each caller; they hold the desk, and end by
// themselves when the server is destroyed, or their caller is silent. Errors: `problem`.
#pragma once

#include "launcher/vault/desk.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace ddprun::launcher::vault {

inline constexpr std::size_t copies_kept = 2;  // of each other node

// "copy-of-node-3"
std::string copy_folder(std::uint32_t group_rank);

class copy_server {
 public:
  // `port`: 0: one that is free. None: it cannot listen.
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
