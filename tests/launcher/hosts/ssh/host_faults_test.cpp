#include "launcher/hosts/ssh/host_faults.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher::ssh;

namespace {

using lines = std::vector<std::string>;

const std::string between = ": no agent was started: ";

}  // namespace

TEST_CASE("hosts with one fault share a line, whatever they are called in it") {
  host_faults faults;
  faults.add("node-b", "root@10.0.0.2: Permission denied (publickey).");
  faults.add("node-x", "ssh: Could not resolve hostname node-x: Name or service not known");
  faults.add("node-c", "root@10.0.0.3: Permission denied (publickey).");
  faults.add("node-y", "ssh: Could not resolve hostname node-y: Name or service not known");
  faults.add("node-6", "root@fd00::6: Permission denied (publickey).");
  faults.add("node-d", "ssh: connect to host 10.0.0.4 port 22: No route to host");
  CHECK(faults.take(between) ==
        lines{"node-b, node-c and node-6: no agent was started: root@10.0.0.2: Permission denied "
              "(publickey).",
              "node-x and node-y: no agent was started: ssh: Could not resolve hostname node-x: "
              "Name or service not known",
              "node-d: no agent was started: ssh: connect to host 10.0.0.4 port 22: No route to "
              "host"});
  CHECK(faults.is_empty());
  CHECK(faults.take(between).empty());
}

TEST_CASE("no list of hosts and no number of faults is without an end") {
  host_faults faults;
  for (int host = 0; host < 300; ++host)
    faults.add("a" + std::to_string(host), "off");
  for (int host = 0; host < 20; ++host)
    faults.add("b" + std::to_string(host), "another one of number " + std::to_string(host));
  const lines told = faults.take(between);
  REQUIRE(told.size() == host_faults::lines_max + 1);
  CHECK(told.front() == "a0, a1, a2, a3, a4, a5, a6, a7 and 292 more: no agent was started: off");
  CHECK(told.back() == "13 more hosts: no agent was started: other reasons");
}
