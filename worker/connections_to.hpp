// This process's TCP connections to one address. Shutting them down ends the waits of libraries
// that offer no other way to do so: their next read reports that the peer has closed.
//
// Thread rule: any thread. Errors: none; an address that cannot be resolved has no connections.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::worker {

class connections_to {
 public:
  // Resolves the host, which can block for as long as the resolver does.
  connections_to(const std::string& host, const std::string& port);
  // Shuts down the connections that exist now; later ones are not affected.
  void end() const;

 private:
  // An IPv6 address, or an IPv4 address mapped into IPv6, and a port.
  using endpoint = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;

  std::vector<endpoint> peers_;
};

}  // namespace ddprun::worker
