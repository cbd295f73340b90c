#include "launcher/agent/node_addresses.hpp"

#include "launcher/network/own_addresses.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

#include <boost/asio/io_context.hpp>

#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// An address of this host that others reach; empty: it has none.
std::string reachable() {
  for (const auto& own : own_addresses()) {
    if (own.is_v4() && !own.is_loopback()) return own.to_string();
  }
  return {};
}

assignment of_two_nodes(const std::string& leader) {
  assignment assigned;
  assigned.group_world_size = 2;
  assigned.master_address = leader;
  return assigned;
}

}  // namespace

TEST_CASE("the leader is where the user has said, or else where the daemon says") {
  boost::asio::io_context io;
  CHECK(node_addresses(io.get_executor(), {}).of_leader("10.0.0.1") == "10.0.0.1");
  CHECK(node_addresses(io.get_executor(), {"", "head"}).of_leader("localhost") == "head");
}

TEST_CASE("this node's address is what was published, then the way there, then what was seen") {
  boost::asio::io_context io;
  const node_addresses published(io.get_executor(), {"192.0.2.1"});
  CHECK(published.own_for("127.0.0.1") == "192.0.2.1");
  node_addresses detected(io.get_executor(), {});
  CHECK(detected.own_for("127.0.0.1") == "127.0.0.1");
  CHECK(detected.own_for("head").empty());
  detected.seen_by_daemon("10.0.0.7");
  CHECK(detected.own_for("head") == "10.0.0.7");
}

TEST_CASE("an interface for Gloo is chosen for several nodes, unless the user has chosen") {
  const std::string own = reachable();
  if (own.empty()) return tests::skip("this host has no address that others reach");
  boost::asio::io_context io;
  node_addresses::options values;
  values.published = own;
  const node_addresses node(io.get_executor(), values);
  const auto choice = node.choose_gloo(of_two_nodes("127.0.0.1"));
  REQUIRE(choice);
  CHECK(choice->name == interface_with(boost::asio::ip::make_address(own)));
  CHECK_FALSE(node.choose_gloo({}));
  values.chooses_gloo = false;
  CHECK_FALSE(node_addresses(io.get_executor(), values).choose_gloo(of_two_nodes("127.0.0.1")));
}

TEST_CASE("where the daemon sees this node at loopback, Gloo gets the way to the leader") {
  const std::string leader = "192.0.2.1";
  const auto way = own_address_towards(boost::asio::ip::make_address(leader));
  boost::asio::io_context io;
  node_addresses node(io.get_executor(), {});
  node.seen_by_daemon("127.0.0.1");
  CHECK_FALSE(node.choose_gloo(of_two_nodes("head")));
  CHECK(node.choose_gloo(of_two_nodes(leader)).has_value() == (way && is_for_others(*way)));
}
