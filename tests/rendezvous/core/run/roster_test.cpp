// The nodes of a run, alone: by what they are found, and when they are looked for.
#include "rendezvous/core/run/nodes.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;

namespace {

hello hello_of(std::uint64_t session, const std::string& id, bool is_explicit) {
  hello greeting;
  greeting.session = {0, session};
  greeting.node = id;
  greeting.node_is_explicit = is_explicit;
  return greeting;
}

}  // namespace

TEST_CASE("a node is found by its session, its connection and the id that a person gave it") {
  roster nodes;
  node& one = nodes.admit(hello_of(1, "a", true));
  node& two = nodes.admit(hello_of(2, "b", false));
  nodes.connect(one, 11);
  CHECK(nodes.find(session_id{0, 1}) == &one);
  CHECK(nodes.find(session_id{0, 3}) == nullptr);
  CHECK(nodes.find(connection_id{11}) == &one);
  CHECK(nodes.of_id("a").at(one.order) == &one);
  CHECK(nodes.of_id("b").empty());
  CHECK(&nodes.at(two.order) == &two);
  CHECK(nodes.begin()->second.get() == &one);
  CHECK(nodes.connected() == 1);
  CHECK(&nodes.some_connected() == &one);

  nodes.disconnect(one);
  CHECK(nodes.find(connection_id{11}) == nullptr);
  CHECK(one.connection == 0);
  CHECK(nodes.connected() == 0);

  nodes.remove(one);
  CHECK(nodes.find(session_id{0, 1}) == nullptr);
  CHECK(nodes.of_id("a").empty());
  CHECK(nodes.size() == 1);
}

TEST_CASE("nodes of one id are all found by it") {
  roster nodes;
  node& earlier = nodes.admit(hello_of(1, "a", true));
  node& later = nodes.admit(hello_of(2, "a", true));
  nodes.admit(hello_of(3, "a", false));
  CHECK(nodes.of_id("a") ==
        roster::same_by_order{{earlier.order, &earlier}, {later.order, &later}});
  nodes.remove(earlier);
  CHECK(nodes.of_id("a") == roster::same_by_order{{later.order, &later}});
}

TEST_CASE("a node is looked for once, when it has been silent for so long") {
  roster nodes;
  node& one = nodes.admit(hello_of(1, "a", false));
  node& two = nodes.admit(hello_of(2, "b", false));
  CHECK_FALSE(nodes.next_look());
  one.heard = two.heard = machine_origin;
  nodes.watch(one, 10s);
  nodes.watch(two, 4s);
  CHECK(nodes.next_look() == machine_origin + 4s);
  CHECK(nodes.due(machine_origin + 3s) == nullptr);
  CHECK(nodes.due(machine_origin + 4s) == &two);

  two.heard = machine_origin + 8s;
  nodes.watch(two, 4s);
  CHECK(nodes.next_look() == machine_origin + 10s);
  CHECK(nodes.due(machine_origin + 12s) == &one);
  nodes.unwatch(one);
  CHECK(nodes.due(machine_origin + 12s) == &two);
  nodes.remove(two);
  CHECK_FALSE(nodes.next_look());
}
