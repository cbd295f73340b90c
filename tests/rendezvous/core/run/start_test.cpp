// From the choice of a round to all its workers: what members are told, whose word counts for what.
#include "tests/support/catch.hpp"
#include "tests/support/trio_story.hpp"

#include <csignal>

using namespace ddprun;
using namespace ddprun::tests;
using namespace std::chrono_literals;

namespace {

void prepare(run_story& story, fake_node& leader, std::uint16_t service, std::uint16_t master) {
  run_story::obey(leader);
  leader.state.service_port = service;
  leader.state.master_port = master;
  story.say(leader, member_phase::preparing);
}

}  // namespace

TEST_CASE("members are told the leader's ports, ids and address, each with its own place") {
  trio_story story(nodes_of(3, 3));
  story.a->state.nccl.first = {"id-0", "id-1"};
  prepare(story, *story.a, 4001, 4002);
  std::uint32_t group_rank = 0;
  for (const fake_node* const who : {story.a, story.b, story.c}) {
    REQUIRE(who->wanted.assignment);
    const assignment& assigned = *who->wanted.assignment;
    CHECK(assigned.group_rank == group_rank);
    CHECK(assigned.rank_first == 2 * group_rank);
    CHECK(assigned.group_world_size == 3);
    CHECK(assigned.world_size == 6);
    CHECK(assigned.tether_port == 4001);
    CHECK(assigned.master_port == 4002);
    CHECK(assigned.master_address == story.a->greeting.own_address);
    CHECK(assigned.nccl.first == std::vector<std::string>{"id-0", "id-1"});
    CHECK(who->wanted.members ==
          "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2), 4-5 on c (10.0.0.3)");
    ++group_rank;
  }
  CHECK(story.view().master_port == 4002);
  CHECK(story.view().world_size == 6);
}

TEST_CASE("who is where is said again only where it is news to a member") {
  trio_story story(nodes_of(2, 3, 3));
  story.start_round();
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  for (const fake_node* const who : {story.a, story.b, story.c}) {
    REQUIRE(who->wanted.round == 2);
    CHECK(who->wanted.members.empty());
  }
  SECTION("another node in the place of one") {
    story.goodbye(*story.c);
    story.stop_all();
    fake_node& late = story.joined("d", nodes_of(2, 3, 3));
    story.pass(1s);
    story.start_round();
    REQUIRE(late.wanted.phase == desired_phase::run);
    CHECK(late.wanted.members ==
          "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2), 4-5 on d (10.0.0.4)");
    CHECK(story.a->wanted.members == late.wanted.members);
  }
  SECTION("a round that ends before anybody says that it has heard of it") {
    story.goodbye(*story.c);
    story.stop_all();
    story.pass(60s);
    prepare(story, story.node_in(desired_phase::prepare), 4001, 4002);
    CHECK_FALSE(story.b->wanted.members.empty());
  }
}

TEST_CASE("where the leader names no master port its service is the master") {
  trio_story story(nodes_of(3, 3));
  prepare(story, *story.a, 4001, 0);
  REQUIRE(story.b->wanted.assignment);
  CHECK(story.b->wanted.assignment->master_port == 4001);
}

TEST_CASE("a round is assigned by its leader's word alone, and only with a port") {
  trio_story story(nodes_of(3, 3));
  prepare(story, *story.b, 4001, 4001);  // nobody asked it to
  CHECK(story.view().phase == run_phase::preparing);
  prepare(story, *story.a, 0, 0);
  CHECK(story.view().phase == run_phase::preparing);
  story.a->state.service_port = 4001;
  status old = story.a->state;
  old.round = 0;
  story.step(core::status_received{story.a->connection, old});
  CHECK(story.view().phase == run_phase::preparing);
  prepare(story, *story.a, 4001, 4001);
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("every member is counted once on its way to running, however often it says so") {
  trio_story story(nodes_of(3, 3));
  prepare(story, *story.a, 4001, 4001);
  for (int times = 0; times < 3; ++times) {
    story.say(*story.a, member_phase::running);
    story.say(*story.b, member_phase::running);
  }
  CHECK(story.why().find("round 1 of 3 nodes and 6 workers starts: 2 nodes run") == 0);
  SECTION("one is missing") {
    story.pass(60s);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("one has succeeded at once") {
    story.say(*story.c, member_phase::succeeded);
    story.say(*story.c, member_phase::succeeded);
    CHECK(story.why().find("round 1 of 3 nodes and 6 workers runs; 1 nodes are done") == 0);
    story.pass(70s);
    CHECK(story.view().phase == run_phase::running);
    // A word from before that was under way is no step back.
    story.say(*story.c, member_phase::starting);
    story.say(*story.a, member_phase::succeeded);
    story.say(*story.b, member_phase::succeeded);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(story.view().exit_code == 0);
  }
}

TEST_CASE("what a member says of an older round says nothing of this one") {
  trio_story story(nodes_of(3, 3));
  story.start_round();
  story.fail(*story.b, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().round == 2);
  status old = story.b->state;
  old.round = 1;
  old.phase = member_phase::failed;
  ++old.seq;
  story.step(core::status_received{story.b->connection, old});
  CHECK(story.view().phase == run_phase::running);
}

TEST_CASE("success counts for its round only") {
  trio_story story(nodes_of(3, 3));
  story.start_round();
  story.say(*story.a, member_phase::succeeded);
  story.say(*story.b, member_phase::succeeded);
  story.fail(*story.c, 3);
  story.stop_all();
  story.start_round();
  REQUIRE(story.view().round == 2);
  story.say(*story.c, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::running);
  story.say(*story.a, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::running);
  story.say(*story.b, member_phase::succeeded);
  CHECK(story.view().phase == run_phase::closed);
}

TEST_CASE("causes count for their round only") {
  trio_story story(nodes_of(3, 3, 1));
  story.start_round();
  cause old;
  old.round = 7;
  old.kind = cause_class::signal;
  old.code = SIGKILL;
  story.c->state.causes = {old};
  story.fail(*story.b, 3);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->code == 3);
  story.start_round();
  story.fail(*story.b, 5);
  story.stop_all();
  CHECK(story.view().exit_code == 5);
}

TEST_CASE("a node that failed and does not say how has exited with 1") {
  trio_story story(nodes_of(3, 3, 0));
  story.start_round();
  story.say(*story.b, member_phase::failed);
  CHECK_FALSE(story.a->wanted.is_unreported);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::exit);
  CHECK(why.code == 1);
  CHECK(why.round == 1);
  CHECK(why.group_rank == 1);
  CHECK(why.node == "b");
  CHECK(story.view().exit_code == 1);
}

TEST_CASE("a node that stopped by itself may not be the only one: wait for quiet") {
  trio_story story(nodes_of(2, 3));
  story.pass(30s);
  story.start_round();
  story.say(*story.b, member_phase::stopping);
  CHECK(story.a->wanted.grace == 5s);
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->kind == cause_class::node_lost);
  CHECK(story.view().root_cause->group_rank == 1);
  CHECK(story.view().phase == run_phase::settling);
  CHECK(story.view().node_losses == 1);
}

TEST_CASE("a member that killed its workers and joins anew") {
  trio_story story(nodes_of(2, 3));
  story.start_round();
  SECTION("while its round runs: it is lost, and nothing of it lives") {
    story.rejoin(*story.b);
    CHECK(story.view().phase == run_phase::stopping);
    CHECK(story.a->wanted.text == "b was lost: it stopped its workers by itself");
    story.stop_all();
    CHECK(story.view().phase == run_phase::settling);
  }
  SECTION("after it had succeeded: nothing") {
    story.say(*story.b, member_phase::succeeded);
    story.rejoin(*story.b);
    CHECK(story.view().phase == run_phase::running);
    story.say(*story.a, member_phase::succeeded);
    story.say(*story.c, member_phase::succeeded);
    CHECK(story.view().exit_code == 0);
  }
  SECTION("while its round stops: it has stopped, and has let go") {
    story.disconnect(*story.c);
    story.fail(*story.a, 1);
    story.rejoin(*story.b);
    story.say(*story.a, member_phase::stopped);
    story.pass(2s);
    CHECK(story.view().phase == run_phase::stopping);
    story.pass(8s * 102 / 100 + 600ms);
    CHECK(story.view().round == 2);
  }
}

TEST_CASE("no leader, no round: who was not told of it is down when it ends") {
  trio_story story(nodes_of(2, 3));
  story.pass(30s);
  REQUIRE(story.view().phase == run_phase::preparing);
  SECTION("the leader has died") {
    story.guardian(*story.a);
    CHECK(story.view().phase != run_phase::stopping);
  }
  SECTION("the leader cannot be reached: it was only asked to prepare") {
    story.disconnect(*story.a);
    story.pass(2s);
    CHECK(story.view().phase != run_phase::stopping);
  }
  story.beat_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
  story.start_round();
  CHECK(story.b->wanted.assignment->group_rank == 0);
  CHECK(story.b->wanted.assignment->group_world_size == 2);
}

TEST_CASE("a member that cannot be reached while its leader prepares was told nothing") {
  trio_story story(nodes_of(2, 3));
  story.pass(30s);
  story.disconnect(*story.b);
  story.pass(2s);
  CHECK(story.b->wanted.phase == desired_phase::wait);
  story.stop_all();
  story.beat_all();
  story.pass(600ms);
  CHECK(story.view().round == 2);
}

TEST_CASE("a leader that does not prepare is told to stop; the others never heard of the round") {
  trio_story story(nodes_of(3, 3));
  const std::size_t told = story.b->desired_count;
  story.pass(60s);
  CHECK(story.a->wanted.phase == desired_phase::stop);
  CHECK(story.a->wanted.grace == 5s);
  CHECK_FALSE(story.a->wanted.is_unreported);
  CHECK(story.b->wanted.phase == desired_phase::wait);
  CHECK(story.b->desired_count > told);  // why
  story.stop_all();
  REQUIRE(story.view().root_cause);
  const cause why = *story.view().root_cause;
  CHECK(why.kind == cause_class::start);
  CHECK(why.group_rank == 0);
  CHECK(why.node == "a");
  CHECK(why.round == 1);
}

TEST_CASE("of several that do not start the first is named") {
  trio_story story(nodes_of(3, 3, 0));
  prepare(story, *story.a, 4001, 4001);
  story.say(*story.a, member_phase::running);
  story.say(*story.c, member_phase::starting);
  story.pass(60s);
  CHECK(story.a->wanted.text ==
        "b: has not started within 60 s, is still joined; so are 1 more nodes");
  story.stop_all();
  REQUIRE(story.view().root_cause);
  CHECK(story.view().root_cause->text ==
        "has not started within 60 s, is still joined; so are 1 more nodes");
  CHECK(story.view().root_cause->group_rank == 1);
}

TEST_CASE("a join restarts a round that runs and has room, no other") {
  run_settings settings = nodes_of(1, 2);
  settings.on_join = join_policy::restart;
  settings.spares_max = 1;
  settings.timing.last_call_timeout = 1s;
  run_story story;
  fake_node& a = story.joined("a", settings);
  SECTION("not one that is full") {
    story.joined("b", settings);
    story.start_round();
    story.joined("c", settings);
    CHECK(story.view().phase == run_phase::running);
  }
  SECTION("not one that is prepared: the next heartbeat after its start does") {
    story.pass(1s);
    REQUIRE(story.view().phase == run_phase::preparing);
    fake_node& b = story.joined("b", settings);
    CHECK(story.view().phase == run_phase::preparing);
    story.start_round();
    story.say(b);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("not one of which not all have started: the next heartbeat after that does") {
    story.pass(1s);
    fake_node& leader = story.node_in(desired_phase::prepare);
    story.obey(leader);
    leader.state.phase = member_phase::preparing;
    leader.state.service_port = leader.state.master_port = 29501;
    story.say(leader);
    REQUIRE(story.view().phase == run_phase::running);
    fake_node& b = story.joined("b", settings);
    story.say(b);
    CHECK(story.view().phase == run_phase::running);
    story.say(leader, member_phase::running);
    CHECK(story.view().phase == run_phase::running);
    story.say(b);
    CHECK(story.view().phase == run_phase::stopping);
  }
  SECTION("free of charge, whatever its workers make of the stop, and after a time of quiet") {
    story.pass(1s);
    story.start_round();
    fake_node& b = story.joined("b", settings);
    CHECK(a.wanted.text == "b joins: the round restarts with it");
    story.fail(a, 9);
    story.stop_all();
    CHECK(story.view().phase == run_phase::settling);
    CHECK_FALSE(story.view().root_cause);
    story.say(b);
    story.pass(600ms);
    CHECK(story.view().round == 2);
    CHECK(story.view().restarts_used == 0);
    story.start_round();
    // And that holds for this stop only.
    story.fail(a, 9);
    story.stop_all();
    CHECK(story.view().restarts_used == 1);
  }
  SECTION("a joiner shows again that it is there") {
    story.pass(1s);
    story.start_round();
    story.now += 1ms;
    fake_node& b = story.joined("b", settings);
    story.stop_all();
    story.pass(1900ms, {&b});
    CHECK(story.view().phase == run_phase::settling);
    story.say(b);
    CHECK(story.view().phase == run_phase::preparing);
  }
}
