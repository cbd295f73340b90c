#include "rendezvous/net/net_types.hpp"

#include <boost/asio/ip/address.hpp>

namespace ddprun::net {

std::string address_text(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

std::string endpoint_text(const tcp::endpoint& endpoint) {
  return endpoint_text(address_text(endpoint.address()), endpoint.port());
}

std::string endpoint_text(std::string_view host, std::uint16_t port) {
  const bool bracketed = host.find(':') != std::string_view::npos && !host.starts_with('[');
  std::string text = bracketed ? "[" : "";
  text += host;
  if (bracketed) text += "]";
  return text + ":" + std::to_string(port);
}

}  // namespace ddprun::net
