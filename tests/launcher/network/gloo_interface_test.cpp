#include "launcher/network/gloo_interface.hpp"

#include "launcher/network/own_addresses.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

net::endpoints found(std::initializer_list<const char*> addresses) {
  net::endpoints result;
  for (const char* const each : addresses)
    result.emplace_back(boost::asio::ip::make_address(each), std::uint16_t{0});
  return result;
}

}  // namespace

TEST_CASE("a host's name that leads others nowhere is a problem, and why is said") {
  CHECK(name_problem({}) == "is not known");
  CHECK(name_problem(found({"127.0.1.1"})) == "is 127.0.1.1 to it");
  CHECK(name_problem(found({"192.0.2.1", "127.0.1.1"})) == "is 127.0.1.1 to it");
  CHECK(name_problem(found({"192.0.2.1"})) == "is 192.0.2.1, another host's, to it");
  for (const auto& own : own_addresses()) {
    if (own.is_loopback()) continue;
    const net::endpoints its = {{own, 0}};
    CHECK(name_problem(its).empty());
  }
}

TEST_CASE("before the name has an answer, an address that others reach is taken") {
  boost::asio::io_context io;
  const gloo_interface gloo(io.get_executor());
  CHECK_FALSE(gloo.choose({}));
  CHECK_FALSE(gloo.choose({"", "node-a", "127.0.0.1", "192.0.2.1"}));
  for (const auto& own : own_addresses()) {
    if (own.is_loopback()) continue;
    const auto choice = gloo.choose({"127.0.0.1", own.to_string()});
    REQUIRE(choice);
    CHECK(choice->name == interface_with(own));
    CHECK(choice->why.find("has no answer yet") != std::string::npos);
  }
}
