// The names from Asio that the rest of the tree uses, and how an address is shown to a person.
#pragma once

#include "rendezvous/base/error.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <string>
#include <string_view>

namespace ddprun::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using executor = asio::any_io_executor;

// The numeric address. An IPv4 address that arrived over IPv6 (::ffff:10.0.0.1) is shown as IPv4.
std::string address_text(const asio::ip::address& address);

// "10.0.0.1:29400", "[2001:db8::1]:29400", "node-a:29400".
std::string endpoint_text(const tcp::endpoint& endpoint);
std::string endpoint_text(std::string_view host, std::uint16_t port);

}  // namespace ddprun::net
