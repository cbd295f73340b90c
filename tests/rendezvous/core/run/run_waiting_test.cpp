// Rule 1: what waiting nodes are told.
#include "rendezvous/core/run/waiting.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/restart_story.hpp"
#include "tests/support/run_story.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using Catch::Matchers::Contains;
using ddprun::tests::origin;
using namespace ddprun::core;
using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// What waiting nodes are told besides the reason: until when they wait, which nodes are missing,
// which node differs in what, and what may have been started by mistake.
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

TEST_CASE("a waiting node is told how long the run still waits") {
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
  // A node that leaves and comes back is no reason to wait longer.
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

TEST_CASE("the members are told which node has replaced which") {
  loss_story story;
  SECTION("another node") {
    const fake_node& c = story.joined("c", nodes_of(2, 2));
    story.start_round();
    CHECK(story.a->wanted.news == "b was replaced by c (node loss 1 of 10 within an hour)");
    CHECK(c.wanted.news == story.a->wanted.news);
    // It is news once only; a later round has other news.
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

TEST_CASE("a node that is refused for its settings is named to the nodes that wait") {
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

TEST_CASE("a node that waits while others run is told how to change that") {
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
          "next round, or at once if all nodes are started with --on-join restart");
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

TEST_CASE("different scripts in a run without a name are a warning to all") {
  run_options options;
  options.run_id = "none";
  run_story story(std::move(options));
  fake_node& a = joined_with(story, "a", "train.py");
  fake_node& b = joined_with(story, "b", "train.py");
  CHECK(warning_of(story, a).empty());
  fake_node& c = joined_with(story, "c", "eval.py");
  story.start_round();
  const std::string warning =
      "nodes of this run start different scripts, train.py on a and eval.py on c: if these are "
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
  // It is normal that two hosts have the same name.
  const bool is_one_host = GENERATE(true, false);
  twin.greeting.node_is_explicit = GENERATE(true, false);
  if (is_one_host) twin.peer_address = a.peer_address;
  story.connect(twin);
  const bool is_meant = !is_one_host || twin.greeting.node_is_explicit;
  CHECK(warning_of(story, a) ==
        (is_meant ? ""
                  : "a and a-2 are agents of this run on one host: if that is intended, give each "
                    "its own GPUs (CUDA_VISIBLE_DEVICES) and name (--node-id)"));
}

// Missing nodes are named, wherever they went: DESIGN.md, rule 1.
TEST_CASE("a node that is lost in a pause between quick failures is named") {
  pair_story story(restarting(2, 2, 0));
  fail_round(story, *story.b, 1);
  story.start_round();
  fail_round(story, *story.b, 2);
  REQUIRE(story.view().phase == run_phase::settling);
  SECTION("in the pause") {
    story.guardian(*story.b);
    story.pass(600ms);
    REQUIRE(story.view().phase == run_phase::settling);
  }
  SECTION("when it is over") {
    story.guardian(*story.b);
    story.pass(3s);
    REQUIRE(story.view().phase == run_phase::gathering);
  }
  REQUIRE(story.a->wanted.gone);
  CHECK(story.a->wanted.gone->what == "b (10.0.0.2, ranks 2 and 3) was lost");
  CHECK_THAT(story.why(), Contains("; b (10.0.0.2, ranks 2 and 3) was lost "));
}

TEST_CASE("a node that is lost while nodes gather is named, and so is its replacement") {
  const run_settings settings = nodes_of(3, 3);
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  fake_node& c = story.joined("c", settings);
  story.start_round();
  story.guardian(c);
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::gathering);
  story.guardian(b);
  story.pass(1s);
  REQUIRE(a.wanted.gone);
  CHECK(a.wanted.gone->what == "c (10.0.0.3, ranks 4 and 5) and 1 more node were lost");
  story.joined("d", settings);
  story.joined("e", settings);
  story.start_round();
  CHECK_THAT(a.wanted.news, Catch::Matchers::StartsWith("c and b were replaced by d and e"));
}

TEST_CASE("replaced nodes are named by the round that starts, not by one that never did") {
  pair_story story;
  story.guardian(*story.b);
  story.stop_all();
  story.pass(1s);
  fake_node& c = story.joined("c", nodes_of(2, 2));
  REQUIRE(story.a->wanted.phase == desired_phase::prepare);
  SECTION("its leader is lost") {
    story.guardian(*story.a);
    story.pass(1s);
    story.joined("d", nodes_of(2, 2));
    story.start_round();
    CHECK_THAT(c.wanted.news, Catch::Matchers::StartsWith("b and a were replaced by c and d"));
  }
  SECTION("a member of it is lost") {
    story.guardian(c);
    story.pass(1s);
    story.stop_all();
    story.pass(1s);
    story.joined("d", nodes_of(2, 2));
    story.start_round();
    CHECK_THAT(story.a->wanted.news, Catch::Matchers::StartsWith("b was replaced by d"));
  }
}

TEST_CASE("a node that leaves while it waits is named to the others that wait") {
  const run_settings settings = nodes_of(3, 3);
  run_story story;
  fake_node& a = story.joined("a", settings);
  fake_node& b = story.joined("b", settings);
  SECTION("by Ctrl-C") {
    story.goodbye(b);
    story.pass(1s);
    REQUIRE(a.wanted.gone);
    CHECK(a.wanted.gone->what == "b (10.0.0.2) left");
    SECTION("until the same host is back") {
      fake_node& again = story.node("b", settings);
      again.peer_address = b.peer_address;
      story.connect(again);
      story.pass(1s);
      CHECK_FALSE(a.wanted.gone);
    }
    SECTION("the first round has no news of it") {
      story.joined("c", settings);
      story.joined("d", settings);
      story.start_round();
      CHECK(a.wanted.news.empty());
    }
  }
  SECTION("as it is lost") {
    story.guardian(b);
    story.pass(1s);
    REQUIRE(a.wanted.gone);
    CHECK(a.wanted.gone->what == "b (10.0.0.2) was lost");
  }
  SECTION("no node is left to hear of it") {
    story.goodbye(b);
    story.goodbye(a);
    fake_node& c = story.joined("c", settings);
    story.pass(1s);
    CHECK_FALSE(c.wanted.gone);
  }
}

TEST_CASE("a spare that left while a round was on is not missing afterwards") {
  run_settings settings = nodes_of(2, 2);
  settings.spares_max = 1;
  pair_story story(settings);
  fake_node& c = story.joined("c", settings);
  story.goodbye(c);
  story.guardian(*story.b);
  story.stop_all();
  story.pass(3s);
  REQUIRE(story.a->wanted.gone);
  CHECK(story.a->wanted.gone->what == "b (10.0.0.2, ranks 2 and 3) was lost");
}

// `departures` without a run: the nodes that are missing since the last round.
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
  gone.add({1, 9}, left("node-b", 15));  // an orderly end adds nothing new
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

TEST_CASE("the next round says which node has replaced which when it starts") {
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

// `wait_message` without a run: the message to all waiting nodes.
TEST_CASE("a notice is built once for all nodes that wait, until the reason changes") {
  const auto message = std::make_shared<const daemon_message>(ack{1});
  constexpr time_point now{1000s};
  wait_message notice;
  CHECK(notice.message_after(0, now) == nullptr);
  notice.build(5, now, message);
  CHECK(notice.message_after(0, now) == message);
  CHECK(notice.message_after(4, now) == message);
  CHECK(notice.message_after(5, now) == nullptr);

  notice.change();
  CHECK(notice.message_after(0, now) == nullptr);
  notice.build(6, now, message);
  CHECK(notice.message_after(5, now) == message);
  // The time that is left, which the message states, would be wrong.
  CHECK(notice.message_after(5, now + 1s) == message);
  CHECK(notice.message_after(5, now + 1001ms) == nullptr);
}

TEST_CASE("a changed reason is news only to the nodes that wait") {
  wait_message notice;
  const std::uint64_t edition = notice.edition();
  CHECK(edition != 0);
  CHECK_FALSE(notice.is_news_after(edition));
  notice.change();
  CHECK(notice.is_news_after(edition));
  CHECK_FALSE(notice.is_news_after(0));
  CHECK_FALSE(notice.is_news_after(notice.edition()));
}

TEST_CASE(
    "all waiting nodes share one message, and one that knows of a later number gets a later one") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(9, 9));
  fake_node& b = story.joined("b", nodes_of(9, 9));
  fake_node& c = story.joined("c", nodes_of(9, 9));
  story.beat_all();
  CHECK(a.wanted_buffer == b.wanted_buffer);
  CHECK(b.wanted_buffer == c.wanted_buffer);
  const std::size_t told = a.desired_count;
  story.beat_all();
  CHECK(a.desired_count == told);
  fake_node& late = story.node("late", nodes_of(9, 9));
  late.state.desired_seq = 5000;
  story.connect(late);
  CHECK(late.wanted.seq > 5000);
  // It has been told as much as this already, so it is not told the same again.
  story.disconnect(a);
  story.connect(a);
  CHECK(a.wanted.seq > b.wanted.seq);
}

TEST_CASE("a node that comes and goes while a run gathers changes how many are here") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(3, 3));
  fake_node& b = story.joined("b", nodes_of(3, 3));
  story.disconnect(b);
  story.say(a);
  CHECK(a.wanted.text == "waiting for 2 of 3 nodes; here: a (2 workers)");
  story.connect(b);
  story.say(a);
  CHECK(a.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
  b.state.unkillable = 1;
  story.say(b);
  story.say(a);
  CHECK(a.wanted.text ==
        "waiting for 2 of 3 nodes; here: a (2 workers); b has workers that do not end");
  b.state.unkillable = 0;
  story.say(b);
  CHECK(b.wanted.text == "waiting for 1 of 3 nodes; here: a (2 workers), b (2 workers)");
}

// A node that cannot take part says why, and the others hear of it.
namespace {

// Makes the node one that cannot start, from its hello on.
void make_unable(fake_node& who, const std::string& text) {
  cause why;
  why.kind = cause_class::start;
  why.node = who.greeting.node;
  why.text = text;
  who.state.draining = true;
  who.state.causes = {why};
}

}  // namespace

TEST_CASE(
    "a node that cannot start says why, and those that wait hear it at their next heartbeat") {
  run_story story;
  const run_settings settings = nodes_of(3, 3);
  fake_node& first = story.joined("a", settings);
  fake_node& second = story.joined("b", settings);
  fake_node& unable = story.node("c", settings);
  make_unable(unable, "train.py: No such file or directory");
  story.connect(unable);
  CHECK(unable.wanted.phase == desired_phase::close);
  story.beat_all();
  for (const fake_node* const who : {&first, &second}) {
    CHECK(who->wanted.phase == desired_phase::wait);
    CHECK(who->wanted.warning == "c cannot take part: train.py: No such file or directory");
    REQUIRE(who->wanted.gone);
    CHECK(who->wanted.gone->why == "train.py: No such file or directory");
  }
  story.goodbye(unable);
  SECTION("it ends nothing, and no node waits for it") {
    story.goodbye(first);
    CHECK(second.wanted.phase == desired_phase::wait);
    CHECK(story.why().starts_with("waiting for 2 of 3 nodes"));
  }
  SECTION("once it is here after all it is not spoken of any more") {
    story.joined("c", settings);
    CHECK(story.why().find("cannot take part") == std::string::npos);
    REQUIRE(first.wanted.phase == desired_phase::prepare);
    CHECK(first.wanted.warning.empty());
  }
}

TEST_CASE("a node that cannot start is not spoken of once another has come for its exact rank") {
  run_story story;
  run_settings settings = nodes_of(3, 3);
  settings.ranks = rank_policy::exact;
  const auto node_of_rank = [&](const std::string& name, std::uint32_t rank) -> fake_node& {
    fake_node& made = story.node(name, settings);
    made.greeting.node_rank = rank;
    return made;
  };
  fake_node& first = node_of_rank("a", 0);
  story.connect(first);
  fake_node& unable = node_of_rank("b", 1);
  make_unable(unable, "train.py: No such file or directory");
  story.connect(unable);
  story.goodbye(unable);
  story.beat_all();
  CHECK(first.wanted.warning == "b cannot take part: train.py: No such file or directory");
  SECTION("for its own") {
    story.connect(node_of_rank("d", 1));
    story.beat_all();
    CHECK(first.wanted.warning.empty());
  }
  SECTION("but not for another's") {
    story.connect(node_of_rank("d", 2));
    story.beat_all();
    CHECK(first.wanted.warning == "b cannot take part: train.py: No such file or directory");
  }
}

TEST_CASE("a node that cannot start is named to those that wait, though its settings differ") {
  run_story story;
  const fake_node& first = story.joined("a", nodes_of(3, 3));
  fake_node& unable = story.node("c", nodes_of(2, 2));
  make_unable(unable, "unknown option --nnode");
  story.connect(unable);
  story.beat_all();
  CHECK(first.wanted.phase == desired_phase::wait);
  CHECK(first.wanted.warning == "c cannot take part: unknown option --nnode");
}

TEST_CASE("a node that cannot start ends no run that waits for others") {
  run_story story;
  fake_node& unable = story.node("c", nodes_of(2, 2));
  make_unable(unable, "no");
  story.connect(unable);
  story.goodbye(unable);
  fake_node& late = story.joined("a", nodes_of(2, 2));
  CHECK(late.wanted.phase == desired_phase::wait);
}
