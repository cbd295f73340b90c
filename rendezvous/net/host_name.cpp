#include "rendezvous/net/host_name.hpp"

#include <array>
#include <unistd.h>

namespace ddprun::net {

std::string full_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string short_host_name() {
  const std::string name = full_host_name();
  return name.substr(0, name.find('.'));
}

}  // namespace ddprun::net
