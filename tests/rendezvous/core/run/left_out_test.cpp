// Rule 13: a node that is the first to fail too often.
#include "tests/support/catch.hpp"
#include "tests/support/restart_story.hpp"

#include <algorithm>
#include <csignal>
#include <string>

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// A node whose workers are the first to fail again and again: DESIGN.md, rule 13.
namespace {

// Another agent on that host, or one that is started again.
fake_node& on_one_host(run_story& story, const std::string& name, const run_settings& settings,
                       const fake_node& as) {
  fake_node& made = story.node(name, settings);
  made.peer_address = made.greeting.own_address = as.peer_address;
  story.connect(made);
  return made;
}

}  // namespace

TEST_CASE("a node whose workers fail first too often is left out, for a spare") {
  run_settings settings = restarting(2, 2);
  settings.node_failures_max = 2;
  settings.spares_max = 2;
  settings.timing.backoff_max = 0s;
  pair_story story(settings);
  fake_node& c = story.joined("c", settings);
  // It fails in the same way within seconds, but another node may do better.
  fail_round(story, *story.b, 3);
  story.start_round();
  fail_round(story, *story.b, 3);
  CHECK(story.b->refusal ==
        "run story goes on without this node: workers on b (10.0.0.2) were the first to fail twice "
        "(--max-node-failures); look for what is wrong with it before it joins another run");
  CHECK(story.b->connection == 0);
  CHECK(story.a->reports.back().text ==
        "restart 2 of 9 without b, whose workers were the first to fail twice "
        "(--max-node-failures)");
  CHECK(story.b->reports.back().text == story.a->reports.back().text);
  story.say(c);
  story.start_round();
  CHECK(c.wanted.phase == desired_phase::run);
  CHECK_THAT(
      story.why(),
      Contains("; left out, as workers there were the first to fail too often: b (10.0.0.2)"));
  SECTION("nor does it come back") {
    fake_node& again = on_one_host(story, "b", settings, *story.b);
    CHECK_THAT(again.refusal, StartsWith("run story goes on without this node"));
  }
  SECTION("until the run begins anew") {
    for (fake_node* const who : {story.a, &c}) {
      story.say(*who, member_phase::succeeded);
    }
    CHECK(story.view().phase == run_phase::closed);
    fake_node& again = on_one_host(story, "b", settings, *story.b);
    CHECK(again.refusal == "");
  }
  SECTION("where the same goes on without it, it was not that node") {
    fail_round(story, c, 3);
    story.start_round();
    fail_round(story, *story.a, 3);
    CHECK(story.view().phase == run_phase::closed);
  }
}

TEST_CASE("a node is left out if the minimum of nodes is enough") {
  run_settings settings = restarting(1, 2);
  settings.node_failures_max = 1;
  settings.timing.backoff_max = 0s;
  pair_story story(settings);
  fail_round(story, *story.a, 3);
  CHECK_THAT(story.a->refusal, StartsWith("run story goes on without this node"));
  story.start_round();
  CHECK(story.b->wanted.assignment->group_world_size == 1);
  CHECK(story.b->wanted.assignment->group_rank == 0);
  SECTION("the last one is needed, and that is said once") {
    fail_round(story, *story.b, 4);
    CHECK(story.b->reports.back().text ==
          "restart 2 of 9 with b, whose workers were the first to fail once, but there is no spare "
          "for it, and --nnodes allows no fewer nodes");
    story.start_round();
    fail_round(story, *story.b, 5);
    CHECK(story.b->reports.back().text == "restart 3 of 9");
    story.start_round();
    CHECK(story.b->wanted.phase == desired_phase::run);
  }
}

TEST_CASE("where ranks are exact, a new node for a rank has the failures of that rank") {
  run_settings settings = restarting(2, 2);
  settings.ranks = rank_policy::exact;
  settings.node_failures_max = 2;
  settings.timing.backoff_max = 0s;
  run_story story;
  // The pod that replaces a pod has another name and address.
  const auto join = [&](std::uint32_t rank, const std::string& pod) -> fake_node& {
    fake_node& made = story.node(pod, settings);
    made.greeting.node_rank = rank;
    made.greeting.node_is_explicit = true;
    story.connect(made);
    return made;
  };
  fake_node& first = join(0, "train-0-x7k2p");
  fake_node& pod = join(1, "train-1-h2kqw");
  story.start_round();
  fail_round(story, pod, 3);
  CHECK(first.reports.back().text == "restart 1 of 9");
  story.goodbye(pod);
  story.stop_all();
  fake_node& successor = join(1, "train-1-9zv4c");
  story.pass(1s);
  story.start_round();
  fail_round(story, successor, 4);
  CHECK(first.reports.back().text ==
        "restart 2 of 9 with train-1-9zv4c, whose workers were the first to fail twice, but there "
        "is no spare for it, and --nnodes allows no fewer nodes");
}

TEST_CASE("a pause and a node that is left out are reported in one sentence") {
  run_settings settings = restarting(1, 2);
  settings.node_failures_max = 2;
  const std::string failed_soon = "; the last 2 rounds failed within 10 s of their start";
  pair_story story(settings);
  fail_round(story, *story.a, 3);
  story.start_round();
  SECTION("without it") {
    fail_round(story, *story.a, 4);
    CHECK(story.b->reports.back().text ==
          "restart 2 of 9 in 1 s, without a, whose workers were the first to fail twice "
          "(--max-node-failures)" +
              failed_soon);
  }
  SECTION("with it, as it is needed") {
    story.guardian(*story.b);
    story.stop_all();
    story.pass(3s);
    story.start_round();
    fail_round(story, *story.a, 4);
    CHECK(story.a->reports.back().text ==
          "restart 2 of 9 in 1 s, with a, whose workers were the first to fail twice, but there "
          "is no spare for it, and --nnodes allows no fewer nodes" +
              failed_soon);
  }
}

TEST_CASE("all agents of a node that is left out leave") {
  run_settings settings = restarting(1, 3);
  settings.node_failures_max = 1;
  settings.timing.backoff_max = 0s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& other = on_one_host(story, "b", settings, b);
  story.start_round();
  fail_round(story, b, 3);
  CHECK_THAT(b.refusal, StartsWith("run story goes on without this node"));
  CHECK_THAT(other.refusal, StartsWith("run story goes on without this node"));
  story.start_round();
  CHECK(a.wanted.assignment->group_world_size == 1);
}

TEST_CASE("a second agent of a node does not replace another node") {
  run_settings settings = restarting(2, 3);
  settings.node_failures_max = 1;
  settings.timing.backoff_max = 0s;
  run_story story;
  story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  on_one_host(story, "b", settings, b);
  story.start_round();
  fail_round(story, b, 3);
  CHECK(b.refusal == "");
}

TEST_CASE("secondary failures and losses are not counted as a node's failures") {
  run_settings settings = restarting(1, 2, 0);
  settings.node_failures_max = 1;
  settings.timing.failure_grace = 0s;
  pair_story story(settings);
  cause effect = run_story::cause_of(*story.a, cause_class::exit, 1);
  effect.is_secondary = true;
  story.a->state.causes = {effect};
  story.say(*story.a, member_phase::failed);
  story.stop_all();
  CHECK(story.a->refusal == "");
  CHECK(story.view().round == 2);
}

TEST_CASE("a node in which the daemon lives stays, without workers") {
  run_settings settings = restarting(1, 2);
  settings.node_failures_max = 1;
  run_story story;
  fake_node& a = story.node("a", settings);
  a.greeting.hosts_daemon = true;
  a.local_address = a.peer_address;
  story.connect(a);
  fake_node& b = story.joined("b", settings);
  story.start_round();
  fail_round(story, a, 3);
  CHECK(a.refusal == "");
  CHECK(a.connection != 0);
  story.start_round();
  CHECK(b.wanted.phase == desired_phase::run);
  CHECK(b.wanted.assignment->group_world_size == 1);
  CHECK(a.wanted.phase != desired_phase::run);
  SECTION("also when its connection breaks") {
    story.disconnect(a);
    story.connect(a);
    CHECK(a.refusal == "");
    fail_round(story, b, 4);
    story.pass(1s);
    story.start_round();
    CHECK(a.wanted.phase != desired_phase::run);
  }
  SECTION("and hears of the end") {
    story.say(b, member_phase::succeeded);
    CHECK(a.wanted.phase == desired_phase::close);
    CHECK(a.wanted.exit_code == 0);
  }
}

TEST_CASE("a node is known by its host, unless a person gave it an id") {
  run_settings settings = restarting(1, 3);
  settings.node_failures_max = 2;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.node("b", settings);
  b.greeting.node = "b-0001";
  story.connect(b);
  story.pass(1s);
  story.start_round();
  fail_round(story, b, 3);
  story.start_round();
  story.goodbye(b);
  story.stop_all();
  fake_node& again = story.node("b", settings);
  again.greeting.node = "b-0002";
  again.peer_address = b.peer_address;
  story.connect(again);
  story.pass(2s);
  story.start_round();
  REQUIRE(again.wanted.phase == desired_phase::run);
  fail_round(story, again, 4);
  CHECK_THAT(again.refusal, Contains("workers on b (10.0.0.2) were the first to fail twice"));
  CHECK(a.refusal == "");
}

TEST_CASE("two hosts of one name are two nodes") {
  run_settings settings = restarting(1, 3);
  settings.node_failures_max = 2;
  settings.timing.backoff_max = 0s;
  run_story story;
  fake_node& a = story.joined("localhost", settings);
  fake_node& b = story.joined("localhost", settings);
  fake_node& c = story.joined("c", settings);
  story.start_round();
  fail_round(story, a, 3);
  story.start_round();
  fail_round(story, b, 4);
  CHECK(a.refusal == "");
  CHECK(b.refusal == "");
  story.start_round();
  fail_round(story, b, 5);
  CHECK(a.refusal == "");
  CHECK_THAT(b.refusal, Contains("workers on localhost (10.0.0.2) were the first to fail twice"));
  story.start_round();
  CHECK(c.wanted.assignment->group_world_size == 2);
}

TEST_CASE("agents on the daemon's own host are of one node, by whatever address they came") {
  run_settings settings = restarting(1, 3);
  settings.node_failures_max = 1;
  settings.timing.backoff_max = 0s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.node("b", settings);
  b.peer_address = b.local_address = "127.0.0.1";
  story.connect(b);
  fake_node& other = story.node("b", settings);
  other.peer_address = other.local_address = "10.0.0.100";
  story.connect(other);
  story.start_round();
  fail_round(story, b, 3);
  CHECK_THAT(b.refusal, Contains("workers on b were the first to fail once"));
  CHECK_THAT(other.refusal, Contains("workers on b were the first to fail once"));
  CHECK(a.refusal == "");
}

// A node that was left out and is needed again: DESIGN.md, rule 13.
namespace {

// a, in which the daemon lives, is left out after its first failure.
struct left_out_host : run_story {
  explicit left_out_host(std::uint32_t least, std::uint32_t most)
      : least_settings(restarting(least, most)) {
    least_settings.node_failures_max = 1;
    least_settings.timing.backoff_max = 0s;
    a = &node("a", least_settings);
    a->greeting.hosts_daemon = true;
    a->local_address = a->peer_address;
    connect(*a);
    b = &joined("b", least_settings);
  }
  void leave_out_a() {
    fail_round(*this, *a, 3);
    start_round();
  }
  run_settings least_settings;
  fake_node* a = nullptr;
  fake_node* b = nullptr;
};

const std::string why_a_waits =
    "; it is left out, as its workers were the first to fail once (--max-node-failures), and "
    "steps in again when no other node is left";

}  // namespace

TEST_CASE("a node that is left out and waits is told so, and not that it is a spare") {
  left_out_host story(1, 2);
  story.start_round();
  story.leave_out_a();
  story.pass(1s);
  CHECK(story.a->wanted.phase == desired_phase::wait);
  CHECK(story.a->wanted.text ==
        "this node waits without workers: round 2 of 1 node and 2 workers runs" + why_a_waits);
  story.disconnect(*story.a);
  story.connect(*story.a);
  CHECK(story.a->wanted.text ==
        "this node waits without workers: round 2 of 1 node and 2 workers runs" + why_a_waits);
}

TEST_CASE("a node that is left out steps in again when too few are left without it") {
  left_out_host story(1, 2);
  story.start_round();
  story.leave_out_a();
  REQUIRE(story.b->wanted.phase == desired_phase::run);
  SECTION("as another is lost") {
    story.guardian(*story.b);
  }
  SECTION("as the last other one is asked to leave") {
    story.ask_to_leave(*story.b, SIGTERM);
    story.stop_all();
  }
  story.pass(3s);
  story.start_round();
  REQUIRE(story.a->wanted.phase == desired_phase::run);
  CHECK(story.a->wanted.assignment->group_world_size == 1);
  const std::string in_again =
      "a takes part again, though its workers were the first to fail once: without it too few "
      "nodes are left";
  CHECK_THAT(story.a->wanted.news, StartsWith("b was replaced by a"));
  CHECK_THAT(story.a->wanted.news, EndsWith("; " + in_again));
  CHECK(std::count(story.notes.begin(), story.notes.end(), in_again) == 1);
  CHECK_THAT(story.why(), !Contains("left out"));
}

TEST_CASE("a node that was needed again is left out again when it is not") {
  left_out_host story(1, 2);
  story.start_round();
  story.leave_out_a();
  story.guardian(*story.b);
  story.pass(3s);
  story.start_round();
  fake_node& c = story.joined("c", story.least_settings);
  fail_round(story, *story.a, 5);
  CHECK_THAT(story.a->reports.back().text,
             Contains("without a, whose workers were the first to fail twice"));
  story.say(c);
  story.start_round();
  CHECK(c.wanted.phase == desired_phase::run);
  story.pass(1s);
  CHECK(story.a->wanted.phase == desired_phase::wait);
}

TEST_CASE("a node that is left out does not step in where that would not be enough") {
  left_out_host story(2, 3);
  fake_node& c = story.joined("c", story.least_settings);
  story.start_round();
  story.leave_out_a();
  REQUIRE(c.wanted.phase == desired_phase::run);
  story.guardian(*story.b);
  story.guardian(c);
  story.pass(3s);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK_THAT(story.a->wanted.text, StartsWith("waiting for 2 of 2 to 3 nodes"));
  CHECK_THAT(story.a->wanted.text, EndsWith("when fewer than 2 others are left"));
  fake_node& d = story.joined("d", story.least_settings);
  story.pass(2s);
  story.start_round();
  CHECK(story.a->wanted.phase == desired_phase::run);
  CHECK(d.wanted.phase == desired_phase::run);
}

TEST_CASE("nodes that were left out step in as needed, those with the fewest failures first") {
  run_settings settings = restarting(2, 4);
  settings.node_failures_max = 2;
  settings.timing.backoff_max = 0s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& c = story.joined("c", settings);
  fake_node& d = story.joined("d", settings);
  story.start_round();
  for (const int code : {3, 4}) {
    fail_round(story, c, code);
    story.start_round();
  }
  REQUIRE_THAT(c.refusal, StartsWith("run story goes on without this node"));
  // Too few nodes are here, so a node that was left out may wait.
  story.guardian(a);
  story.guardian(b);
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::gathering);
  fake_node& again = story.node("c", settings);
  again.peer_address = c.peer_address;
  SECTION("one that comes again is let in where it is needed") {
    story.connect(again);
    CHECK(again.refusal == "");
    story.pass(2s);
    story.start_round();
    CHECK(again.wanted.phase == desired_phase::run);
    CHECK(d.wanted.phase == desired_phase::run);
  }
  SECTION("it waits where it is not enough, and goes when it is not needed") {
    story.guardian(d);
    story.connect(again);
    CHECK(again.refusal == "");
    story.joined("e", settings);
    REQUIRE(story.view().phase == run_phase::gathering);
    CHECK_THAT(story.why(), !Contains("left out"));  // e and c are two
  }
}

TEST_CASE("a node that is left out and one that is unhealthy are enough together") {
  left_out_host story(2, 3);
  fake_node& c = story.joined("c", story.least_settings);
  story.start_round();
  story.leave_out_a();
  REQUIRE(c.wanted.phase == desired_phase::run);
  const std::string ill = "GPU 3 needs a reset";
  SECTION("of two nodes") {
    c.state.unhealthy = ill;
  }
  SECTION("of one, which is both") {
    story.a->state.unhealthy = ill;
    story.say(*story.a);
  }
  story.guardian(*story.b);
  story.stop_all();
  story.pass(3s);
  story.start_round();
  CHECK(story.a->wanted.phase == desired_phase::run);
  CHECK(c.wanted.phase == desired_phase::run);
  CHECK_THAT(c.wanted.news,
             Contains("a takes part again, though its workers were the first to fail "
                      "once: without it too few nodes are left"));
  CHECK_THAT(c.wanted.news, Contains(" takes part though its health check says: " + ill));
}
