#include "launcher/network/listen_addresses.hpp"

#include "launcher/network/own_addresses.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>

using boost::asio::ip::address;
using boost::asio::ip::make_address;
using ddprun::launcher::listen_addresses;

namespace {

using addresses = std::vector<std::string>;

}  // namespace

TEST_CASE("a round that is dialled on loopback listens on loopback alone") {
  const addresses loopback = {"127.0.0.1", "::1"};
  CHECK(listen_addresses({make_address("127.0.0.1")}) == loopback);
  CHECK(listen_addresses({make_address("::1")}) == loopback);
  CHECK(listen_addresses({make_address("::1"), make_address("127.0.0.1")}) == loopback);
  // Debian maps a host's name to this address.
  CHECK(listen_addresses({make_address("127.0.1.1")}) ==
        addresses{"127.0.1.1", "127.0.0.1", "::1"});
}

TEST_CASE("an address of this host is listened on beside loopback, and no other") {
  for (const address& own : ddprun::launcher::own_addresses()) {
    const addresses found = listen_addresses({own});
    CHECK(std::count(found.begin(), found.end(), own.to_string()) == 1);
    CHECK(found.size() == (own == make_address("127.0.0.1") || own == make_address("::1") ? 2 : 3));
  }
}

TEST_CASE("where the clients come by cannot be known, every interface is listened on") {
  CHECK(listen_addresses({}).empty());
  CHECK(listen_addresses({make_address("192.0.2.1")}).empty());
  CHECK(listen_addresses({make_address("2001:db8::1")}).empty());
  CHECK(listen_addresses({make_address("0.0.0.0")}).empty());
  CHECK(listen_addresses({make_address("::")}).empty());
  CHECK(listen_addresses({make_address("127.0.0.1"), make_address("192.0.2.1")}).empty());
}
