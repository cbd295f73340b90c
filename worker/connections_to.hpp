// This process's connections to an address, to end waits of libraries that offer no other way:
// their next read there says that the peer has closed.
//
// Thread rule: any thread. Errors: none; an address that cannot be found has no connections.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::worker {

class connections_to {
 public:
  // Looks the host up, which may take its time.
  connections_to(const std::string& host, const std::string& port);
  // Those that there are now.
  void end() const;

 private:
  // Of IPv6, or IPv4 written as such; and a port.
  using endpoint = std::pair<std::array<std::uint8_t, 16>, std::uint16_t>;

  std::vector<endpoint> peers_;
};

}  // namespace ddprun::worker
