#include "launcher/hosts/doctor/nccl_choice.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;
using namespace ddprun::launcher::doctor;

namespace {

std::vector<interface_address> host(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<interface_address> made;
  for (const auto& [interface, address] : pairs)
    made.push_back({interface, boost::asio::ip::make_address(address)});
  return made;
}

std::string choice(const std::vector<interface_address>& own, const std::string& wanted = "") {
  const auto made = nccl_choice(own, wanted);
  return made ? made->interface : "none";
}

}  // namespace

TEST_CASE("the interface that NCCL takes by itself") {
  const auto plain = host({{"lo", "127.0.0.1"}, {"docker0", "172.17.0.1"}, {"eth0", "10.0.0.1"}});
  CHECK(choice(plain) == "eth0");
  CHECK(choice(host({{"eth0", "10.0.0.1"}, {"ib0", "10.1.0.1"}})) == "ib0");
  // A pod's veth, which no other host can reach, is chosen if the kernel lists it first.
  CHECK(choice(host({{"veth12", "10.9.0.1"}, {"eth0", "10.0.0.1"}})) == "veth12");
  CHECK(choice(host({{"lo", "127.0.0.1"}, {"virbr0", "192.168.122.1"}})) == "lo");
  CHECK(choice(host({{"docker0", "172.17.0.1"}, {"lo", "127.0.0.1"}})) == "docker0");
  CHECK(choice(host({{"eth0", "fe80::1"}, {"lo", "::1"}})) == "none");
  CHECK(choice({}) == "none");
}

TEST_CASE("the interface that NCCL is told to take") {
  const auto own = host({{"lo", "127.0.0.1"}, {"eth0", "10.0.0.1"}, {"eth10", "10.0.1.1"}});
  CHECK(choice(own, "eth1") == "eth10");  // the beginning of its name
  CHECK(choice(own, "=eth1") == "none");
  CHECK(choice(own, "=eth10") == "eth10");
  CHECK(choice(own, "eth0:0,ib") == "eth0");
  CHECK(choice(own, "^docker") == "lo");  // which lets loopback in again
  CHECK(choice(own, "^=eth0,lo") == "eth10");
  CHECK(choice(own, "^lo,eth") == "none");
}
