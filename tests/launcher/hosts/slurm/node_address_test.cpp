#include "launcher/hosts/slurm/node_address.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher::slurm;

TEST_CASE("the address of a node is what Slurm shows of it") {
  // As scontrol of 22.05 prints it.
  const std::string shown =
      "NodeName=n1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=0 CPUTot=2 CPULoad=0.01 "
      "AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=10.77.0.2 "
      "NodeHostName=n1 Port=6818 Version=22.05.8 OS=Linux State=IDLE\n";
  CHECK(address_in(shown, "n1") == "10.77.0.2");
  CHECK(address_in("NodeName=n1 NodeAddr=n1 NodeHostName=n1\n", "n1").empty());
  CHECK(address_in("NodeName=n1 NodeAddr=fd00::2\n", "n1") == "fd00::2");
  CHECK(address_in("Node n9 not found\n", "n9").empty());
  CHECK(address_in("", "n1").empty());
}

TEST_CASE("a name that resolves is asked for nowhere else") {
  CHECK(node_address("localhost", {{"PATH", "/nowhere"}}).empty());
}
