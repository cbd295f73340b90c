// What those who wait are told beside the reason: until when, who is missing, who differs in what,
// and what may have been started wrongly.
#include "tests/support/catch.hpp"
#include "tests/support/run_story.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

// Node b has died, with proof, and a has stopped; too few are left for a round.
struct loss_story : pair_story {
  loss_story() {
    guardian(*b);
    stop_all();
    pass(1s);
  }
};

fake_node& joined_with(run_story& story, const std::string& host, const std::string& script) {
  fake_node& made = story.node(host, nodes_of(3, 3));
  made.greeting.script = script;
  story.connect(made);
  return made;
}

std::string warning_of(run_story& story, fake_node& who) {
  story.say(who);
  return who.wanted.warning;
}

}  // namespace

TEST_CASE("who waits is told how long the run still waits") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(3, 3));
  CHECK(first.wanted.left == 600s);
  CHECK_FALSE(first.wanted.is_last_call);
  story.pass(100s);
  const fake_node& second = story.joined("b", nodes_of(3, 3));
  CHECK(second.wanted.left == 500s);
  story.say(first);
  CHECK(first.wanted.left == 500s);
}

TEST_CASE("the last call is told with its remaining time, which begins anew") {
  run_story story;
  fake_node& first = story.joined("a", nodes_of(1, 4));
  CHECK(first.wanted.text ==
        "enough nodes are here (1 of 1 to 4 nodes), last call for more nodes; here: a (2 workers)");
  CHECK(first.wanted.is_last_call);
  CHECK(first.wanted.left == 30s);
  story.pass(10s);
  fake_node& second = story.joined("b", nodes_of(1, 4));
  CHECK(second.wanted.left == 30s);
  story.pass(10s);
  // One that goes and comes is no reason to wait longer.
  story.goodbye(second);
  story.say(first);
  CHECK(first.wanted.left == 20s);
}

TEST_CASE("a message that is shared says what is left as of now") {
  run_story story;
  story.joined("a", nodes_of(3, 3));
  story.now += 300s;
  fake_node& other = story.joined("b", nodes_of(3, 3));
  CHECK(other.wanted.left == 300s);
}

TEST_CASE("after a loss the wait keeps its cause, and so does its end") {
  loss_story story;
  CHECK(story.a->wanted.phase == desired_phase::wait);
  CHECK(story.a->wanted.text == "waiting for 1 of 2 nodes; here: a (2 workers)");
  REQUIRE(story.a->wanted.gone);
  CHECK(story.a->wanted.gone->what == "b (10.0.0.2, ranks 2 and 3) was lost");
  const std::string how = "its ddprun process died, and its guardian killed the workers";
  CHECK(story.a->wanted.gone->why == how);
  CHECK(story.why().find("; b (10.0.0.2, ranks 2 and 3) was lost 1 s ago: " + how) !=
        std::string::npos);
  story.pass(600s);
  CHECK(story.a->wanted.phase == desired_phase::close);
  CHECK(story.a->wanted.text ==
        "gave up after 10 min (join_timeout): waiting for 1 of 2 nodes; here: a (2 workers); b "
        "(10.0.0.2, ranks 2 and 3) was lost 10 min ago: " +
            how);
}

TEST_CASE("a node that was asked to leave is missing, too") {
  pair_story story;
  story.ask_to_leave(*story.b, 15);
  story.stop_all();
  story.pass(1s);
  REQUIRE(story.a->wanted.gone);
  CHECK(story.a->wanted.gone->what == "b (10.0.0.2, ranks 2 and 3) left on SIGTERM");
}

TEST_CASE("who takes whose place is said with the places") {
  loss_story story;
  SECTION("another node") {
    const fake_node& c = story.joined("c", nodes_of(2, 2));
    story.start_round();
    CHECK(story.a->wanted.news == "b was replaced by c (node loss 1 of 10 within an hour)");
    CHECK(c.wanted.news == story.a->wanted.news);
    // It is news once: a later round has others.
    story.fail(*story.a, 1);
    story.stop_all();
    story.start_round();
    CHECK(story.a->wanted.round == 3);
    CHECK(story.a->wanted.news.empty());
  }
  SECTION("the same again") {
    story.joined("b", nodes_of(2, 2));
    story.start_round();
    CHECK(story.a->wanted.news == "b is back (node loss 1 of 10 within an hour)");
  }
}

TEST_CASE("the first round has no news") {
  const pair_story story;
  CHECK(story.a->wanted.news.empty());
}

TEST_CASE("a node that is refused for its settings is named to those who wait") {
  loss_story story;
  const fake_node& odd = story.joined("odd", nodes_of(2, 2, 5));
  CHECK(odd.refusal.find("odd has max-restarts 5, the run 3: start all nodes of run story") == 0);
  story.say(*story.a);
  CHECK(story.a->wanted.text ==
        "waiting for 1 of 2 nodes; here: a (2 workers); odd was refused: it has max-restarts 5, "
        "the run 3");
  story.joined("c", nodes_of(2, 2));
  story.start_round();
  CHECK(story.a->wanted.news ==
        "b was replaced by c (node loss 1 of 10 within an hour); odd was refused: it has "
        "max-restarts 5, the run 3");
}

TEST_CASE("nodes that disagree are named with what they have") {
  run_story story;
  fake_node& early = story.joined("a", nodes_of(3, 3));
  story.disconnect(early);
  fake_node& odd = story.joined("odd", nodes_of(3, 3, 5));
  early.state.instance = odd.state.instance = odd.wanted.instance;
  story.connect(early);
  story.disconnect(odd);
  story.joined("b", nodes_of(3, 3));
  story.connect(odd);
  story.say(odd);
  CHECK(odd.wanted.text.find("; they disagree: a and 1 more have max-restarts 3, odd 5: ") !=
        std::string::npos);
}

TEST_CASE("who waits while others run is told how to change that") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.last_call_timeout = 1s;
  settings.spares_max = 1;
  run_story story;
  SECTION("a place is free") {
    story.joined("a", settings);
    story.pass(1s);
    story.start_round();
    const fake_node& late = story.joined("b", settings);
    CHECK(late.wanted.text ==
          "this node waits as a spare: round 1 of 1 node and 2 workers runs; it takes part in the "
          "next round, or at once where all nodes are started with --on-join restart");
    CHECK(late.wanted.left == 0s);
  }
  SECTION("none is") {
    story.joined("a", settings);
    story.joined("b", settings);
    story.start_round();
    const fake_node& spare = story.joined("c", settings);
    CHECK(spare.wanted.text ==
          "this node waits as a spare: round 1 of 2 nodes and 4 workers runs; it steps in when a "
          "node is lost (a larger --nnodes uses all nodes from the start)");
  }
}

TEST_CASE("different scripts in a run that nobody has named are a warning to all") {
  run_options options;
  options.run_id = "none";
  run_story story(std::move(options));
  fake_node& a = joined_with(story, "a", "train.py");
  fake_node& b = joined_with(story, "b", "train.py");
  CHECK(warning_of(story, a).empty());
  fake_node& c = joined_with(story, "c", "eval.py");
  story.start_round();
  const std::string warning =
      "nodes of this run start different scripts, train.py on a and eval.py on c: where these are "
      "two jobs, give each its own --rdzv-id (without one it is none)";
  for (const fake_node* const who : {&a, &b, &c})
    CHECK(who->wanted.warning == warning);
}

TEST_CASE("different scripts in a run with a name are meant") {
  run_story story;
  fake_node& a = joined_with(story, "a", "train.py");
  joined_with(story, "b", "eval.py");
  CHECK(warning_of(story, a).empty());
}

TEST_CASE("two agents on one host are a warning, unless each has a name") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& twin = story.node("a", nodes_of(3, 3));
  twin.greeting.node = "a-2";
  // Two hosts of one name are normal.
  const bool is_one_host = GENERATE(true, false);
  twin.greeting.node_is_explicit = GENERATE(true, false);
  if (is_one_host) twin.peer_address = a.peer_address;
  story.connect(twin);
  const bool is_meant = !is_one_host || twin.greeting.node_is_explicit;
  CHECK(warning_of(story, a) ==
        (is_meant ? ""
                  : "a and a-2 are agents of this run on one host: where that is meant, give each "
                    "its own GPUs (CUDA_VISIBLE_DEVICES) and name (--node-id)"));
}
