#include "launcher/hosts/doctor/network_facts.hpp"
#include "tests/launcher/hosts/doctor/doctor_support.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher::doctor;
using namespace ddprun::tests::doctor;
using boost::asio::ip::make_address;

namespace {

network_facts two_cards_of_node_7() {
  network_facts facts;
  facts.host_name = "node-7";
  facts.addresses = {{"lo", make_address("127.0.0.1")},
                     {"eth0", make_address("192.168.1.5")},
                     {"eth0", make_address("fe80::1")},
                     {"ib0", make_address("10.0.3.7")}};
  facts.packet_sizes = {{"eth0", 1500}, {"ib0", 4092}};
  facts.first_handed_out = 32768;
  facts.last_handed_out = 60999;
  return facts;
}

std::string judged(const std::string& check, const environment_map& environment = {},
                   std::uint16_t port = 29400) {
  return line_of(judge_network(two_cards_of_node_7(), environment, port), check);
}

endpoint_facts of_node_0() {
  endpoint_facts facts;
  facts.endpoint = {"node-0", 29400};
  facts.addresses = {"10.0.3.1"};
  facts.own_address = "10.0.3.7";
  facts.own_interface = "ib0";
  return facts;
}

}  // namespace

TEST_CASE("a node that others find by its name") {
  CHECK(judged("host name") == "ok: node-7 is this host, and others find it by that name");
}

TEST_CASE("a name that is Debian's 127.0.1.1, or has no answer") {
  network_facts facts = two_cards_of_node_7();
  facts.name_problem = "is 127.0.1.1 to it";
  CHECK(line_of(judge_network(facts, {}, 29400), "host name")
            .starts_with("warning: node-7 is 127.0.1.1 to it: other nodes do not find this one"));
  facts.is_name_late = true;
  CHECK(line_of(judge_network(facts, {}, 29400), "host name")
            .starts_with("warning: node-7 has no answer from the name service after 5 s: "));
}

TEST_CASE("interfaces are shown with what others may use of them") {
  CHECK(judged("interfaces") ==
        "ok: eth0 192.168.1.5 (MTU 1500), ib0 10.0.3.7 (MTU 4092): where nodes meet by another one "
        "than the first: --network");
  network_facts facts = two_cards_of_node_7();
  facts.addresses.resize(1);
  CHECK(line_of(judge_network(facts, {}, 29400), "interfaces")
            .starts_with("warning: none but loopback has an address: "));
}

TEST_CASE("variables name interfaces as NCCL and Gloo read them") {
  const auto nccl = [](const std::string& value) {
    return judged("NCCL_SOCKET_IFNAME", {{"NCCL_SOCKET_IFNAME", value}});
  };
  const auto gloo = [](const std::string& value) {
    return judged("GLOO_SOCKET_IFNAME", {{"GLOO_SOCKET_IFNAME", value}});
  };
  CHECK(judged("NCCL_SOCKET_IFNAME") == "nothing");
  CHECK(nccl("eth,ib") == "ok: eth,ib");
  CHECK(nccl("=ib0") == "ok: =ib0");
  CHECK(nccl("^docker,lo") == "nothing");  // whatever is there besides
  CHECK(nccl("=ib") ==
        "error: =ib is not an interface with an address on this host: unset it, or name one of "
        "these: lo, "
        "eth0, "
        "ib0");
  CHECK(nccl("ens").starts_with("error: ens is not an interface"));
  CHECK(gloo("ib0") == "ok: ib0");
  CHECK(gloo("ib").starts_with("error: ib is not an interface"));  // Gloo takes whole names
}

TEST_CASE("an endpoint's port that the kernel hands out to others") {
  CHECK(judged("ports") == "ok: the kernel hands out 32768 to 60999");
  CHECK(
      judged("ports", {}, 40000)
          .starts_with("warning: the kernel hands out 32768 to 60999, and the endpoint's 40000 is "
                       "among them: "));
}

TEST_CASE("an endpoint that answers, and from where it is reached") {
  const finding found = judge_endpoint(of_node_0());
  CHECK(found.state == health::ok);
  CHECK(found.seen == "node-0:29400 answers; this node reaches it from 10.0.3.7 (ib0)");
}

TEST_CASE("an endpoint that refuses may not be started yet; one without a route never is") {
  endpoint_facts facts = of_node_0();
  facts.dial_problem = "node-0:29400: 10.0.3.1:29400: Connection refused";
  CHECK(judge_endpoint(facts).state == health::warning);
  CHECK(
      judge_endpoint(facts).advice.starts_with("refused is normal until the job has been started"));
  facts.own_address.clear();
  CHECK(judge_endpoint(facts).state == health::error);
}

TEST_CASE("an endpoint on this node is where the daemon will be") {
  endpoint_facts facts = of_node_0();
  facts.is_here = true;
  facts.dial_problem = "refused";
  CHECK(judge_endpoint(facts).state == health::ok);
  CHECK(judge_endpoint(facts).seen == "node-0:29400 is this node; ddprun starts the daemon here");
}

TEST_CASE("the process that holds the endpoint's port on this node is named") {
  endpoint_facts facts = of_node_0();
  facts.is_here = true;
  CHECK(judge_endpoint(facts).seen == "node-0:29400 is this node, and a program listens there");
  facts.holder = port_holder{12, "ddprun"};
  CHECK(judge_endpoint(facts).state == health::ok);
  CHECK(judge_endpoint(facts).seen ==
        "node-0:29400 is this node, and ddprun (process 12) listens there");
  facts.holder = port_holder{34, "python3.11"};
  CHECK(judge_endpoint(facts).state == health::warning);
  CHECK(judge_endpoint(facts).seen ==
        "node-0:29400 is this node, and python3.11 (process 34) listens there");
  CHECK(judge_endpoint(facts).advice.ends_with("end it, or choose another port"));
}

TEST_CASE("an endpoint whose name does not resolve") {
  endpoint_facts facts = of_node_0();
  facts.look_up_problem = "Host not found (authoritative)";
  CHECK(judge_endpoint(facts).state == health::error);
  CHECK(judge_endpoint(facts).seen == "node-0: Host not found (authoritative)");
}

TEST_CASE("the kernel's ports and packet sizes are read from its files") {
  const fake_node node;
  node.write("proc/sys/net/ipv4/ip_local_port_range", "15000\t64000");
  node.write("sys/class/net/lo/mtu", "65536");
  const network_facts facts = read_network(node.root());
  CHECK(facts.first_handed_out == 15000);
  CHECK(facts.last_handed_out == 64000);
  CHECK(facts.packet_sizes.at("lo") == 65536);
}
