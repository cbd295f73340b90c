#include "rendezvous/core/messages/wait_text.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("a span that goes on is said roughly") {
  CHECK(rough_text(0s) == "1 s");
  CHECK(rough_text(11600ms) == "12 s");
  CHECK(rough_text(119s) == "119 s");
  CHECK(rough_text(120s) == "2 min");
  CHECK(rough_text(9min + 29s) == "9 min");
  CHECK(rough_text(9min + 59s) == "10 min");
}

TEST_CASE("a missing node is named together with how long ago that was noticed") {
  departure gone{"node-b (10.0.0.2, rank 1) was lost", 40s, "silent for 10 s"};
  CHECK(sentence_of(gone) == "node-b (10.0.0.2, rank 1) was lost 40 s ago: silent for 10 s");
  gone.why.clear();
  CHECK(sentence_of(gone, 20s) == "node-b (10.0.0.2, rank 1) was lost 60 s ago");
}

TEST_CASE("what is left stands after the first clause") {
  CHECK(with_left("waiting for 1 of 2 nodes; here: a (1 worker)", 540s, false) ==
        "waiting for 1 of 2 nodes, 9 min left; here: a (1 worker)");
  CHECK(with_left("last call for more nodes; here: a", 12s, true) ==
        "last call for more nodes: 12 s; here: a");
  CHECK(with_left("waiting", 12s, false) == "waiting, 12 s left");
  CHECK(with_left("waiting; here: a", 0s, false) == "waiting; here: a");
}
