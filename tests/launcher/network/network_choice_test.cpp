#include "launcher/network/network_choice.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;
using boost::asio::ip::make_address;

namespace {

const std::vector<interface_address> two_cards = {
    {"lo", make_address("127.0.0.1")}, {"eth0", make_address("192.168.1.5")},
    {"ib0", make_address("10.0.3.7")}, {"lo", make_address("::1")},
    {"eth0", make_address("fe80::1")}, {"eth0", make_address("fd00::5")},
    {"ib0", make_address("10.0.3.8")},
};

network_wish wish(const std::string& networks, const std::string& address = "") {
  network_wish made;
  made.networks = *read_networks("", networks);
  made.address = address;
  return made;
}

std::string chosen(const network_wish& wanted) {
  const auto choice = choose_network(wanted, two_cards);
  return choice ? choice->interface + " " + choice->address : choice.error().text;
}

}  // namespace

TEST_CASE("a network is found by its addresses or by its interface's name") {
  CHECK(chosen(wish("10.0.0.0/8")) == "ib0 10.0.3.7");
  CHECK(chosen(wish("ib0")) == "ib0 10.0.3.7");
  CHECK(chosen(wish("eth0")) == "eth0 192.168.1.5");
  CHECK(chosen(wish("fd00::/8")) == "eth0 fd00::5");
  CHECK(chosen(wish("10.0.3.8")) == "ib0 10.0.3.8");
  CHECK(chosen(wish("lo")) == "lo 127.0.0.1");
}

TEST_CASE("where nodes meet by IPv6, that address of an interface is taken") {
  network_wish wanted = wish("eth0");
  wanted.likes_ipv6 = true;
  CHECK(chosen(wanted) == "eth0 fd00::5");
  wanted.networks = wish("ib0").networks;
  CHECK(chosen(wanted) == "ib0 10.0.3.7");
}

TEST_CASE("of several networks the first that is here is taken") {
  CHECK(chosen(wish("bond0,172.16.0.0/12,ib0,eth0")) == "ib0 10.0.3.7");
}

TEST_CASE("a network that is not here is refused, with those that are") {
  CHECK(chosen(wish("172.16.0.0/12,eth1")) ==
        "--network=172.16.0.0/12,eth1: this node has no such network; it has eth0 192.168.1.5, "
        "fd00::5; ib0 10.0.3.7, 10.0.3.8; lo 127.0.0.1, ::1");
  // A link-local address does not help other hosts to reach this one.
  CHECK(chosen(wish("fe80::/10")).find("no such network") != std::string::npos);
  CHECK(choose_network(wish("eth0"), {}).error().text ==
        "--network=eth0: this node has no such network; it has no address at all");
}

TEST_CASE("an address that was asked for wins, unless it contradicts") {
  CHECK(chosen(wish("10.0.0.0/8", "10.0.3.8")) == "ib0 10.0.3.8");
  CHECK(chosen(wish("eth0,ib0", "10.0.3.8")) == "ib0 10.0.3.8");
  CHECK(chosen(wish("ib0", "192.168.1.5")) ==
        "--network=ib0: this node was given the address 192.168.1.5, which is on eth0 and in none "
        "of these networks; leave one of the two out");
  // A NAT's address, and a name, may lead anywhere.
  CHECK(chosen(wish("ib0", "203.0.113.9")) == "ib0 203.0.113.9");
  CHECK(chosen(wish("ib0", "node-a")) == "ib0 node-a");
  network_wish leader = wish("ib0", "192.168.1.5");
  leader.is_fixed = true;
  CHECK(chosen(leader) == "ib0 192.168.1.5");
}
