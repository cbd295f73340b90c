// Who is missing since the last round, alone.
#include "rendezvous/core/run/departures.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::origin;

namespace {

departed_node lost(const std::string& node, time_point at = origin) {
  departed_node gone{node, "10.0.0.2", 2, 2, {}, at};
  gone.cause.kind = cause_class::node_lost;
  gone.cause.text = "silent for 10 s";
  return gone;
}

departed_node left(const std::string& node, int signal) {
  departed_node gone = lost(node);
  gone.cause.kind = cause_class::drain;
  gone.cause.code = signal;
  gone.cause.text.clear();
  return gone;
}

}  // namespace

TEST_CASE("the first that is missing is named, with address, ranks and age") {
  departures gone;
  CHECK_FALSE(gone.told(origin));
  gone.add({1, 9}, lost("node-b"));
  CHECK(gone.told(origin + 40s) ==
        departure{"node-b (10.0.0.2, ranks 2 and 3) was lost", 40s, "silent for 10 s"});
  gone.add({1, 1}, lost("node-c", origin + 1s));
  gone.add({1, 9}, left("node-b", 15));  // that it left in order is no news
  CHECK(gone.told(origin + 40s)->what ==
        "node-b (10.0.0.2, ranks 2 and 3) and 1 more node were lost");
  gone.drop({1, 9});
  CHECK(gone.told(origin + 40s) ==
        departure{"node-c (10.0.0.2, ranks 2 and 3) was lost", 39s, "silent for 10 s"});
  gone.drop({1, 1});
  CHECK_FALSE(gone.has_members());
}

TEST_CASE("a node that was asked to leave has left, and is no loss") {
  departures gone;
  gone.add({1, 1}, left("node-b", 15));
  CHECK(gone.told(origin)->what == "node-b (10.0.0.2, ranks 2 and 3) left on SIGTERM");
  CHECK_FALSE(gone.has_lost());
  gone.add({1, 2}, lost("node-c"));
  CHECK(gone.has_lost());
}

TEST_CASE("who has taken whose place is said when the next round starts") {
  departures gone;
  CHECK(gone.change({}, 0).empty());
  CHECK(gone.change({"node-c"}, 1) == "node-c has joined");
  CHECK(gone.change({"node-c", "node-d"}, 2) == "node-c and node-d have joined");
  gone.add({1, 2}, lost("node-b"));
  CHECK(gone.change({}, 0) == "going on without node-b");
  CHECK(gone.change({"node-c"}, 1) == "node-b was replaced by node-c");
  CHECK(gone.change({"node-b"}, 1) == "node-b is back");
  gone.add({1, 1}, lost("node-a"));
  CHECK(gone.change({"node-c", "node-d"}, 2) ==
        "node-b and node-a were replaced by node-c and node-d");
}
