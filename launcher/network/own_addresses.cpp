#include "launcher/network/own_addresses.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/host_name.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <strings.h>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::address;
using boost::asio::ip::address_v4;
using boost::asio::ip::address_v6;

bool equal_ignoring_case(const std::string& left, const std::string& right) {
  return strcasecmp(left.c_str(), right.c_str()) == 0;
}

// The form that `own_addresses` returns: no IPv4 mapped to IPv6, no scope.
address plain_of(const address& given) {
  if (!given.is_v6()) return given;
  const address_v6 v6 = given.to_v6();
  if (v6.is_v4_mapped()) return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, v6);
  return address_v6(v6.to_bytes());
}

}  // namespace

std::vector<interface_address> own_addresses_by_interface() {
  std::vector<interface_address> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    if (each->ifa_addr->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      found.push_back({each->ifa_name, address_v4(ntohl(v4->sin_addr.s_addr))});
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &v6->sin6_addr, bytes.size());
      found.push_back({each->ifa_name, address_v6(bytes)});
    }
  }
  freeifaddrs(list);
  return found;
}

std::vector<address> own_addresses() {
  std::vector<address> found;
  for (const interface_address& each : own_addresses_by_interface())
    found.push_back(each.value);
  return found;
}

std::optional<address> own_address_towards(const address& other) {
  boost::asio::io_context unused;
  boost::asio::ip::udp::socket probe(unused);
  error_code error;
  const boost::asio::ip::udp::endpoint to(other, 9);  // any port: connect() only looks up the route
  probe.open(to.protocol(), error);
  if (!error) probe.connect(to, error);
  if (error) return {};
  const auto from = probe.local_endpoint(error);
  if (error) return {};
  return plain_of(from.address());
}

std::string interface_with(const address& given) {
  for (const interface_address& each : own_addresses_by_interface()) {
    if (each.value == plain_of(given)) return each.interface;
  }
  return {};
}

bool is_own_address(const address& given) {
  const address plain = plain_of(given);
  if (plain.is_loopback() || plain.is_unspecified()) return true;
  const std::vector<address> own = own_addresses();
  return std::find(own.begin(), own.end(), plain) != own.end();
}

bool is_for_others(const address& given) {
  const address each = plain_of(given);
  if (each.is_loopback() || each.is_unspecified() || each.is_multicast()) return false;
  return !each.is_v6() || !each.to_v6().is_link_local();
}

bool is_own_name(const std::string& name) {
  return equal_ignoring_case(name, "localhost") ||
         equal_ignoring_case(name, net::full_host_name()) ||
         equal_ignoring_case(name, net::short_host_name());
}

}  // namespace ddprun::launcher
