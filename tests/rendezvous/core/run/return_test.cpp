// Nodes that come back to a round that is running, that is over, or that was found late.
#include "tests/support/catch.hpp"
#include "tests/support/orphans_story.hpp"

#include <csignal>

using namespace ddprun::tests;
using namespace ddprun;
using namespace std::chrono_literals;

// Nodes that come back to this daemon or to the next: they go on, are told to stop, are fenced, or
// wait.
TEST_CASE("a place that was said in the hello holds until another round is said") {
  orphans_story story(2);
  fake_node& first = *story.members[0];
  story.connect(first);
  SECTION("statuses name none: the round is found whole") {
    first.state.assignment.reset();
    story.say(first);
    story.connect(*story.members[1]);
    CHECK(story.view().phase == run_phase::running);
  }
  SECTION("it is in another round meanwhile, where it has none") {
    first.state.assignment.reset();
    first.state.round = 8;
    story.say(first);
    story.members[1]->state.round = 8;
    story.connect(*story.members[1]);
    CHECK(story.view().phase == run_phase::gathering);
    story.pass(10s);
    CHECK(story.view().phase == run_phase::stopping);
  }
}

TEST_CASE("a found round is kept only where every place is taken once, in a round of one size") {
  orphans_story story(2);
  assignment& second = *story.members[1]->state.assignment;
  SECTION("two claim one place") {
    second.group_rank = 0;
  }
  SECTION("a place outside") {
    second.group_rank = 2;
  }
  SECTION("another size") {
    second.group_world_size = 3;
  }
  SECTION("one has not got that far") {
    story.members[1]->state.phase = member_phase::stopping;
  }
  SECTION("one is in an older round") {
    story.members[1]->state.round = 6;
  }
  SECTION("one was told of a newer round") {
    story.members[1]->state.round_told = 8;
  }
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  CHECK(story.view().phase == run_phase::gathering);
  story.pass(10s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.view().instance == 42);
}

TEST_CASE("a kept round has all that it had: places, ports, restarts, and its leader") {
  orphans_story story(2);
  story.members[0]->state.restarts_used = 1;
  story.members[1]->greeting.role = "reader";
  story.members[0]->state.assignment->in_role =
      story.members[1]->state.assignment->in_role = {0, 2};
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  REQUIRE(story.view().phase == run_phase::running);
  CHECK(story.view().restarts_used == 2);
  CHECK(story.view().master_port == 4000);
  CHECK(story.view().master_address == "10.0.0.1");
  CHECK(story.view().world_size == 4);
  REQUIRE(story.view().members.size() == 2);
  CHECK(story.view().members[1].group_rank == 1U);
  CHECK(story.view().members[1].rank_first == 2U);
  CHECK(story.view().members[1].role == "reader");
  CHECK(story.members[1]->wanted.assignment->in_role == role_ranks{0, 2});
  SECTION("those that do not start are noticed") {
    orphans_story slow(2);
    slow.members[1]->state.phase = member_phase::starting;
    slow.connect(*slow.members[0]);
    slow.connect(*slow.members[1]);
    REQUIRE(slow.view().phase == run_phase::running);
    slow.pass(60s);
    CHECK(slow.view().phase == run_phase::stopping);
  }
  SECTION("a failure that was said already is dealt with") {
    orphans_story failed(2);
    fake_node& failing = *failed.members[1];
    failing.state.phase = member_phase::failed;
    failing.state.causes = {run_story::cause_of(failing, cause_class::exit, 9)};
    failed.connect(*failed.members[0]);
    failed.connect(*failed.members[1]);
    CHECK(failed.view().phase == run_phase::stopping);
    CHECK(failed.members[0]->wanted.text.find("exited with code 9") != std::string::npos);
  }
  SECTION("its members keep their group ranks in the next round") {
    story.fail(*story.members[0], 1);
    story.stop_all();
    story.start_round();
    CHECK(story.view().round == 8);
    CHECK(story.members[0]->wanted.assignment->group_rank == 0);
    CHECK(story.members[1]->wanted.assignment->group_rank == 1);
  }
}

TEST_CASE("a found round that ends: all of it is told, and it costs nothing") {
  orphans_story story(3);
  for (int index = 0; index < 2; ++index)
    story.connect(*story.members[index]);
  story.pass(10s);
  for (int index = 0; index < 2; ++index) {
    CHECK(story.members[index]->wanted.phase == desired_phase::stop);
    CHECK(story.members[index]->wanted.grace == 5s);
    CHECK(story.members[index]->wanted.round == 7);
    CHECK_FALSE(story.members[index]->wanted.root_cause);
  }
  story.connect(*story.members[2]);
  story.stop_all();
  CHECK(story.view().round == 9);
  CHECK(story.view().restarts_used == 2);
  CHECK(story.view().node_losses == 0);
  // The next failure is charged like any other.
  story.start_round();
  story.fail(*story.members[1], 1);
  story.stop_all();
  CHECK(story.view().restarts_used == 3);
}

TEST_CASE("a member without its place takes a free one, but never the leader's") {
  orphans_story story(3);
  story.members[1]->state.assignment.reset();
  story.members[1]->state.phase = member_phase::stopped;
  story.connect(*story.members[1]);
  story.connect(*story.members[2]);
  story.pass(10s);
  REQUIRE(story.view().phase == run_phase::stopping);
  for (const core::member_view& member : story.view().members)
    CHECK(member.rank_first == (member.node == "n2" ? 4U : 0U));
  story.stop_all();
  // It is the leader that is missing, and it has lost the tethers of the others.
  story.pass(8s);
  CHECK(story.view().round == 7);
  story.pass(1s);
  CHECK(story.view().round == 9);
}

TEST_CASE("a member without its place is a member all the same, and no other is waited for") {
  orphans_story story(2);
  story.members[1]->state.assignment.reset();
  story.members[1]->state.phase = member_phase::stopped;
  for (fake_node* const who : story.members)
    story.connect(*who);
  story.pass(10s);
  CHECK(story.members[0]->wanted.text == "the rendezvous daemon was restarted");
  story.stop_all();
  CHECK(story.view().round == 9);
}

TEST_CASE("a member that comes back to a round of which it has no place is fenced") {
  orphans_story story(2);
  story.connect(*story.members[0]);
  story.pass(10s);
  REQUIRE(story.view().phase == run_phase::stopping);
  fake_node& late = *story.members[1];
  SECTION("none at all") {
    late.state.assignment.reset();
  }
  SECTION("one that is taken") {
    late.state.assignment->group_rank = 0;
  }
  SECTION("one outside") {
    late.state.assignment->group_rank = 2;
  }
  SECTION("one far outside") {
    late.state.assignment->group_rank = 4'000'000'000;
  }
  SECTION("of a round larger than any") {
    late.state.assignment->group_world_size = 4'000'000'000;
  }
  SECTION("of another round") {
    late.state.round = 6;
  }
  story.connect(late);
  CHECK((late.wanted.phase == desired_phase::fence || !late.refusal.empty()));
}

TEST_CASE("a member of a larger round than was thought makes room for those it speaks of") {
  orphans_story story(2);
  story.connect(*story.members[0]);
  story.pass(10s);
  fake_node& late = *story.members[1];
  late.state.assignment->group_world_size = 3;
  story.connect(late);
  CHECK(late.wanted.phase == desired_phase::stop);
  story.stop_all();
  CHECK(story.view().round == 7);  // the daemon waits for the third
  story.pass(9s);
  CHECK(story.view().round == 9);
}

TEST_CASE("a node that waited in a found instance waits again") {
  orphans_story story(2);
  fake_node& waiting = story.node("w", story.settings);
  waiting.state.instance = 42;
  story.connect(waiting);
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  REQUIRE(story.view().phase == run_phase::running);
  CHECK(waiting.wanted.phase == desired_phase::wait);
  CHECK(waiting.wanted.instance == 42);
  story.fail(*story.members[0], 1);
  story.say(waiting);
  story.stop_all();
  CHECK(story.node_in(desired_phase::prepare).wanted.group_world_size == 3);
}

TEST_CASE("nodes of a found instance that ask for something else are told the difference") {
  orphans_story story(3);
  story.members[2]->greeting.settings = nodes_of(2, 4);
  story.members[2]->state.round = 6;
  story.members[2]->state.phase = member_phase::stopped;
  for (fake_node* const who : story.members)
    story.connect(*who);
  story.pass(10s);
  CHECK(story.view().instance == 42);
  CHECK(story.members[2]->refusal.find(" has nnodes 2:4, the run 1:4: ") != std::string::npos);
}

TEST_CASE("of two instances with as many nodes the one that came first is taken") {
  orphans_story story(2);
  story.members[0]->state.instance = 41;
  story.connect(*story.members[1]);
  story.connect(*story.members[0]);
  story.pass(10s);
  // Between the two the order in which they joined decides.
  CHECK(story.view().instance == 42);
  CHECK(story.members[0]->wanted.phase == desired_phase::fence);
}

TEST_CASE("numbers of rounds never fall below one that any node was told") {
  SECTION("by a member of this instance that is fenced") {
    run_story story;
    fake_node& a = story.joined("a", nodes_of(1, 1));
    story.start_round();
    fake_node& odd = story.node("odd", nodes_of(1, 1));
    odd.state.instance = story.view().instance;
    odd.state.round = 9;
    odd.state.phase = member_phase::running;
    story.connect(odd);
    CHECK(odd.wanted.phase == desired_phase::fence);
    CHECK(odd.wanted.round == 9);
    story.fail(a, 1);
    story.stop_all();
    CHECK(story.view().round == 10);
  }
  SECTION("by the options") {
    core::run_options options;
    options.first_round = 30;
    run_story story(options);
    story.joined("a", nodes_of(1, 1));
    CHECK(story.view().round == 30);
  }
}

TEST_CASE("a fenced node is noted once, and let in when it has killed everything") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.start_round();
  story.fail(a, 1);
  story.disconnect(b);
  story.pass(2s);
  story.stop_all();
  story.pass(9s);
  story.start_round();
  REQUIRE(story.view().round == 2);
  const auto fences = [&] {
    return std::count_if(story.notes.begin(), story.notes.end(), [](const std::string& text) {
      return text.find("which is over: it is told to kill its workers") != std::string::npos;
    });
  };
  story.connect(b);
  CHECK(b.wanted.phase == desired_phase::fence);
  CHECK(b.wanted.instance == story.view().instance);
  story.disconnect(b);
  story.connect(b);
  CHECK(b.wanted.phase == desired_phase::fence);
  CHECK(fences() == 1);
  story.rejoin(b);
  CHECK(b.wanted.phase == desired_phase::wait);
  // It is a candidate again.
  story.fail(a, 1);
  story.say(b);
  story.stop_all();
  CHECK(story.node_in(desired_phase::prepare).wanted.group_world_size == 2);
}

TEST_CASE("a fenced node that has become another session's twin is no member") {
  run_story story;
  fake_node& a = story.joined("a", nodes_of(1, 2));
  fake_node& b = story.joined("b", nodes_of(1, 2));
  story.start_round();
  story.pass(1s);
  story.disconnect(b);
  story.pass(3s);
  REQUIRE(story.view().phase == run_phase::stopping);
  story.stop_all();
  story.pass(9s);
  story.start_round();
  story.connect(b);
  REQUIRE(b.wanted.phase == desired_phase::fence);
  // What it says while it is fenced ends nothing here.
  story.say(b, member_phase::failed);
  CHECK(story.view().phase == run_phase::running);
  story.ask_to_leave(b, SIGINT);
  CHECK(story.view().phase == run_phase::running);
  CHECK(a.wanted.phase == desired_phase::run);
}

TEST_CASE("a claimant that is away for a moment when the window ends is waited for") {
  run_settings settings = nodes_of(1, 2);
  settings.timing.last_call_timeout = 1s;
  orphans_story story(2, settings);
  fake_node& newcomer = story.joined("new", settings);
  story.connect(*story.members[0]);
  story.pass(9500ms);
  story.disconnect(*story.members[0]);
  story.pass(1s);
  CHECK(newcomer.wanted.phase == desired_phase::wait);
  CHECK(story.view().instance == 0);
  story.connect(*story.members[0]);
  story.pass(11s);  // the daemon waits for the other one again
  CHECK(story.view().instance == 42);
  CHECK(story.members[0]->wanted.phase == desired_phase::stop);
}

TEST_CASE("a node that leaves while a claimant is away for a moment ends no run") {
  run_settings settings = nodes_of(1, 2);
  orphans_story story(2, settings);
  fake_node& newcomer = story.joined("new", settings);
  story.connect(*story.members[0]);
  story.pass(9500ms);
  story.disconnect(*story.members[0]);
  story.pass(1s);
  story.ask_to_leave(newcomer, SIGTERM);
  CHECK(newcomer.wanted.phase == desired_phase::close);
  CHECK(newcomer.wanted.exit_code == 128 + SIGTERM);
  CHECK(story.view().phase == run_phase::gathering);
}

TEST_CASE("a round that a restarted daemon ends is free, though a worker of it had failed") {
  orphans_story story(3);
  fake_node& failing = *story.members[1];
  failing.state.phase = member_phase::failed;
  failing.state.causes = {run_story::cause_of(failing, cause_class::exit, 9)};
  story.connect(*story.members[0]);
  story.connect(*story.members[1]);
  story.pass(10s);
  REQUIRE(story.view().phase == run_phase::stopping);
  story.connect(*story.members[2]);
  story.stop_all();
  CHECK(story.view().round == 9);
  CHECK(story.view().restarts_used == 2);
}

TEST_CASE("a round of which only waiting nodes had told is ended free of charge, too") {
  orphans_story story(2);
  fake_node& waiting = story.node("w", story.settings);
  waiting.state.instance = 42;
  waiting.state.round_told = 7;
  story.connect(waiting);
  story.pass(10s);
  REQUIRE(story.view().phase == run_phase::stopping);
  fake_node& failing = *story.members[1];
  failing.state.phase = member_phase::failed;
  failing.state.causes = {run_story::cause_of(failing, cause_class::exit, 9)};
  for (fake_node* const who : story.members) {
    story.connect(*who);
    CHECK(who->wanted.phase == desired_phase::stop);
  }
  story.stop_all();
  story.beat_all();
  CHECK(story.view().round == 9);
  CHECK(story.view().restarts_used == 2);
}

// Nodes of a newer round than the one that a restarted daemon has found, which come back late.
namespace {

// Round 7 was running when a node that only waited was cut off together with the daemon's host. The
// daemon died there, and the next one has found that node alone. Two other nodes run round 8.
struct outdated_story : orphans_story {
  outdated_story() : orphans_story(2, nodes_of(2, 4)) {
    for (fake_node* const member : members)
      member->state.round = 8;
    spare = &node("spare", settings);
    spare->state.instance = 42;
    spare->state.round_told = 7;
    connect(*spare);
    pass(11s);
    REQUIRE(view().phase == run_phase::stopping);
    REQUIRE(view().round == 7);
  }
  void all_come() {
    for (fake_node* const member : members)
      connect(*member);
  }
  fake_node* spare = nullptr;
};

}  // namespace

TEST_CASE("a newer round than the found one is kept when all its nodes come back") {
  outdated_story story;
  SECTION("while the found one is being stopped") {}
  SECTION("when that is over, and too few nodes are here") {
    story.pass(610s);
    REQUIRE(story.view().phase == run_phase::gathering);
  }
  story.connect(*story.members[0]);
  CHECK(story.why().find("nodes have come that are in a round of which") == 0);
  CHECK(story.members[0]->desired_count == 0);
  CHECK(story.members[0]->answered == story.members[0]->state.seq);
  story.connect(*story.members[1]);
  CHECK(story.view().phase == run_phase::running);
  CHECK(story.view().round == 8);
  CHECK(story.view().instance == 42);
  for (const fake_node* const member : story.members)
    CHECK(member->wanted.phase == desired_phase::run);
  SECTION("and nothing of the found one is left") {
    story.pass(60s);
    CHECK(story.view().phase == run_phase::running);
    for (fake_node* const member : story.members)
      story.say(*member, member_phase::succeeded);
    CHECK(story.view().phase == run_phase::closed);
    CHECK(story.view().exit_code == 0);
  }
}

TEST_CASE("a newer round than the found one of which all have succeeded ends the run well") {
  outdated_story story;
  for (fake_node* const member : story.members)
    member->state.phase = member_phase::succeeded;
  SECTION("all come back") {
    story.all_come();
  }
  SECTION("one does not, in another window") {
    story.connect(*story.members[0]);
    story.pass(9s);
    CHECK(story.view().phase == run_phase::gathering);
    story.pass(2s);
  }
  CHECK(story.view().phase == run_phase::closed);
  CHECK(story.view().exit_code == 0);
  CHECK(story.members[0]->wanted.phase == desired_phase::close);
  CHECK(story.spare->wanted.phase == desired_phase::close);
}

TEST_CASE("a newer round than the found one is ended where one of its nodes does not come back") {
  outdated_story story;
  story.connect(*story.members[0]);
  story.pass(11s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.view().round == 8);
  CHECK(story.members[0]->wanted.phase == desired_phase::stop);
  CHECK(story.members[0]->wanted.round == 8);
  story.stop_all();
  story.pass(7s);
  CHECK(story.view().round == 8);
  story.pass(3s);
  // The earlier daemon may have chosen one more round.
  CHECK(story.view().round == 10);
  CHECK(story.view().restarts_used == 2);
}

TEST_CASE("members of the found round end when a newer one shows up") {
  orphans_story story(3);
  fake_node& old = *story.members[0];
  old.state.round = 6;
  story.connect(old);
  story.pass(11s);
  REQUIRE(old.wanted.phase == desired_phase::stop);
  REQUIRE(old.wanted.round == 6);
  const std::uint64_t answered = old.answered;
  story.connect(*story.members[1]);
  story.say(old);
  CHECK(old.answered == answered);
  story.pass(5s);
  story.connect(*story.members[2]);
  story.pass(6s);
  CHECK(story.view().round == 7);
  CHECK(old.wanted.phase == desired_phase::fence);
  CHECK(story.members[1]->wanted.phase == desired_phase::stop);
}

TEST_CASE("a round that was named by a node that has gone again is waited for") {
  orphans_story story(2);
  story.members[0]->state.round = 8;
  story.connect(*story.members[0]);
  story.disconnect(*story.members[0]);
  fake_node& waiting = story.node("w", story.settings);
  waiting.state.instance = 42;
  SECTION("one that only waited is here") {}
  SECTION("one of an older round is here") {
    story.connect(*story.members[1]);
  }
  story.connect(waiting);
  story.pass(11s);
  CHECK(story.view().phase == run_phase::stopping);
  CHECK(story.view().round == 8);
  story.pass(580s);
  CHECK(story.view().round == 8);
  story.pass(30s);
  CHECK(story.view().round == 10);
}

TEST_CASE("a node that names ever newer rounds delays the run for so many windows only") {
  outdated_story story;
  fake_node& liar = *story.members[0];
  for (int time = 0; time < 8; ++time) {
    liar.state.round += 2;
    story.connect(liar);
    CHECK(story.view().phase == run_phase::gathering);
    story.disconnect(liar);
    story.pass(11s);
    CHECK(story.view().phase == run_phase::stopping);
  }
  liar.state.round += 2;
  story.connect(liar);
  CHECK(liar.wanted.phase == desired_phase::fence);
  CHECK(story.view().phase == run_phase::stopping);
}

TEST_CASE("from an operator's stop on nothing gives way any more") {
  orphans_story story(3);
  story.connect(*story.members[0]);
  story.pass(11s);
  REQUIRE(story.members[0]->wanted.phase == desired_phase::stop);
  story.step(core::operator_stop_requested{"maintenance"});
  story.members[1]->state.round = 8;
  story.connect(*story.members[1]);
  CHECK(story.members[1]->wanted.phase == desired_phase::fence);
  story.stop_all();
  CHECK(story.view().phase == run_phase::closed);
}

// In a round that is only prepared no node is placed, and no worker was started.
TEST_CASE("a running instance that comes while the first round here is prepared is kept") {
  orphans_story story(2, nodes_of(2, 2));
  story.now = run_story::origin + 12s;
  fake_node& first = story.joined("x", story.settings);
  fake_node& second = story.joined("y", story.settings);
  REQUIRE(story.view().phase == run_phase::preparing);
  fake_node& leader = first.wanted.phase == desired_phase::prepare ? first : second;
  story.connect(*story.members[0]);
  CHECK(story.members[0]->desired_count == 0);
  CHECK(story.view().phase == run_phase::gathering);
  CHECK(leader.wanted.phase == desired_phase::wait);
  SECTION("when all of it are here") {
    story.connect(*story.members[1]);
    CHECK(story.view().instance == 42);
    CHECK(story.view().phase == run_phase::running);
    CHECK(story.members[1]->wanted.phase == desired_phase::run);
  }
  SECTION("and the prepared one begins anew when it is gone, and its workers must be, too") {
    story.disconnect(*story.members[0]);
    story.pass(590s);
    CHECK(leader.wanted.phase == desired_phase::wait);
    story.pass(30s);
    CHECK(story.view().phase == run_phase::preparing);
    CHECK(story.view().instance != 42);
    story.start_round();
    CHECK(story.view().phase == run_phase::running);
  }
}
