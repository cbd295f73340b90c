#include "launcher/network/own_addresses.hpp"

#include "rendezvous/net/host_name.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/ip/address.hpp>

using boost::asio::ip::make_address;

TEST_CASE("loopback is this host, in every spelling") {
  CHECK(ddprun::launcher::is_own_address(make_address("127.0.0.1")));
  CHECK(ddprun::launcher::is_own_address(make_address("127.8.9.10")));
  CHECK(ddprun::launcher::is_own_address(make_address("::1")));
  CHECK(ddprun::launcher::is_own_address(make_address("::ffff:127.0.0.1")));
}

TEST_CASE("an address of documentation is not this host") {
  CHECK_FALSE(ddprun::launcher::is_own_address(make_address("192.0.2.1")));
  CHECK_FALSE(ddprun::launcher::is_own_address(make_address("2001:db8::1")));
}

TEST_CASE("this host's name is its own, whatever the case") {
  const std::string name = ddprun::net::short_host_name();
  CHECK(ddprun::launcher::is_own_name(name));
  CHECK(ddprun::launcher::is_own_name("LocalHost"));
  CHECK_FALSE(ddprun::launcher::is_own_name("no-such-host-" + name));
}

TEST_CASE("the own address towards another is that of the route") {
  CHECK(ddprun::launcher::own_address_towards(make_address("127.0.0.1"))->is_loopback());
  const auto towards = ddprun::launcher::own_address_towards(make_address("::1"));
  CHECK((!towards || towards->is_loopback()));  // there may be no IPv6
  for (const auto& own : ddprun::launcher::own_addresses()) {
    if (own.is_v4()) CHECK(ddprun::launcher::own_address_towards(own) == own);
  }
}

TEST_CASE("the interface of an address is found by it") {
  CHECK(ddprun::launcher::interface_with(make_address("127.0.0.1")) == "lo");
  CHECK(ddprun::launcher::interface_with(make_address("::ffff:127.0.0.1")) == "lo");
  CHECK(ddprun::launcher::interface_with(make_address("192.0.2.1")).empty());
}
