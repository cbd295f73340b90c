#include "launcher/cli/wanted_networks.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;
using boost::asio::ip::make_address;

namespace {

std::string network_error(const std::string& value) {
  const auto read = read_networks("--network=" + value, value);
  REQUIRE(read.has_error());
  return read.error().text;
}

bool holds(const std::string& network, const char* address) {
  return read_networks("", network)->front().contains(make_address(address));
}

}  // namespace

TEST_CASE("networks are addresses with a number of bits, or interfaces") {
  const auto networks = *read_networks("", "10.0.0.0/8,eth0,fd00::/8,10.1.2.3");
  REQUIRE(networks.size() == 4);
  CHECK(networks[0].prefix_bits == 8);
  CHECK_FALSE(networks[1].base);
  CHECK(networks[1].text == "eth0");
  CHECK(networks[2].base->is_v6());
  CHECK(networks[3].prefix_bits == 32);
}

TEST_CASE("a network has the addresses that begin as it does") {
  CHECK(holds("10.0.0.0/8", "10.255.0.1"));
  CHECK(holds("10.9.8.7/8", "10.255.0.1"));
  CHECK_FALSE(holds("10.0.0.0/8", "11.0.0.1"));
  CHECK(holds("10.77.0.128/25", "10.77.0.200"));
  CHECK_FALSE(holds("10.77.0.128/25", "10.77.0.127"));
  CHECK(holds("10.1.2.3", "10.1.2.3"));
  CHECK_FALSE(holds("10.1.2.3", "10.1.2.2"));
  CHECK(holds("0.0.0.0/0", "192.0.2.1"));
  CHECK(holds("fd00:1::/33", "fd00:1:7fff::1"));
  CHECK_FALSE(holds("fd00:1::/33", "fd00:1:8000::1"));
  CHECK_FALSE(holds("0.0.0.0/0", "fd00::1"));
  CHECK_FALSE(holds("eth0", "10.0.0.1"));
}

TEST_CASE("what is no network is said") {
  CHECK(network_error("10.0.0.0/33") ==
        "--network=10.0.0.0/33: 10.0.0.0/33: write a number of bits from 0 to 32 after the /");
  CHECK(network_error("fd00::/x").find("from 0 to 128") != std::string::npos);
  CHECK(network_error("eth0/8") ==
        "--network=eth0/8: eth0/8 is neither a network (10.0.0.0/8, fd00::/8) nor an interface "
        "(eth0)");
  CHECK(network_error("an-interface-of-many-letters").find("is neither") != std::string::npos);
  CHECK(network_error("eth0,") ==
        "--network=eth0,: write networks (10.0.0.0/8) or interfaces (eth0), with commas between");
  CHECK(network_error("").starts_with("--network=: write networks"));
}
