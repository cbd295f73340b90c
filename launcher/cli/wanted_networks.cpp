#include "launcher/cli/wanted_networks.hpp"

#include "rendezvous/base/error.hpp"

#include <algorithm>
#include <charconv>
#include <net/if.h>

namespace ddprun::launcher {
namespace {

using boost::asio::ip::address;

std::vector<unsigned char> bytes_of(const address& one) {
  if (one.is_v6()) {
    const auto bytes = one.to_v6().to_bytes();
    return {bytes.begin(), bytes.end()};
  }
  const auto bytes = one.to_v4().to_bytes();
  return {bytes.begin(), bytes.end()};
}

bool is_interface_name(std::string_view text) {
  return text.size() < IFNAMSIZ && std::all_of(text.begin(), text.end(), [](char c) {
           return c > ' ' && c < 0x7f && c != '/';
         });
}

cli::parsed<wanted_network> read_network(std::string_view given, std::string_view text) {
  const auto no = [&](const std::string& why) {
    return cli::usage_error{std::string(given) + ": " + why};
  };
  if (text.empty())
    return no("write networks (10.0.0.0/8) or interfaces (eth0), with commas between");
  wanted_network network{std::string(text), {}, 0};
  const std::size_t slash = text.find('/');
  error_code error;
  const address base = boost::asio::ip::make_address(std::string(text.substr(0, slash)), error);
  if (error) {
    if (is_interface_name(text)) return network;
    return no(network.text +
              " is neither a network (10.0.0.0/8, fd00::/8) nor an interface (eth0)");
  }
  const unsigned bits_max = base.is_v6() ? 128 : 32;
  network.base = base;
  network.prefix_bits = bits_max;
  if (slash == std::string_view::npos) return network;
  const std::string_view bits = text.substr(slash + 1);
  const char* const end = bits.data() + bits.size();
  const auto [stopped, wrong] = std::from_chars(bits.data(), end, network.prefix_bits);
  if (bits.empty() || wrong != std::errc() || stopped != end || network.prefix_bits > bits_max) {
    return no(network.text + ": write a number of bits from 0 to " + std::to_string(bits_max) +
              " after the /");
  }
  return network;
}

}  // namespace

bool wanted_network::contains(const address& other) const {
  if (!base || base->is_v6() != other.is_v6()) return false;
  const std::vector<unsigned char> left = bytes_of(*base);
  const std::vector<unsigned char> right = bytes_of(other);
  for (unsigned bit = 0; bit < prefix_bits; ++bit) {
    const unsigned mask = 0x80U >> (bit % 8);
    if (((left[bit / 8] ^ right[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

cli::parsed<std::vector<wanted_network>> read_networks(std::string_view given,
                                                       std::string_view value) {
  std::vector<wanted_network> networks;
  while (true) {
    const std::size_t comma = value.find(',');
    auto network = read_network(given, value.substr(0, comma));
    if (!network) return network.error();
    networks.push_back(std::move(*network));
    if (comma == std::string_view::npos) return networks;
    value.remove_prefix(comma + 1);
  }
}

}  // namespace ddprun::launcher
