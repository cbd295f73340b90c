#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

TEST_CASE("the leader opens the round's service, says its ports, and starts when told to run") {
  agent_story story;
  story.connect();
  story.prepare(1, 2);
  REQUIRE(story.all<open_service>().size() == 1);
  CHECK(story.all<open_service>()[0].group_world_size == 2);
  CHECK(story.all<open_service>()[0].world_size == 4);
  CHECK(story.sent.phase == member_phase::preparing);
  CHECK(story.sent.service_port == 29500);
  CHECK(story.sent.master_port == 29501);
  CHECK_FALSE(story.did<start_workers>());
  story.assign(1, 0, 2);
  CHECK(story.did<start_workers>());
  CHECK(story.machine().phase() == member_phase::starting);
  story.tell(workers_started{1});
  CHECK(story.sent.phase == member_phase::running);
  CHECK_FALSE(story.sent.assignment);  // the daemon knows it, because it has made it
  story.lose_daemon();
  story.connect();
  REQUIRE(story.sent.assignment);  // another daemon may not know it
  CHECK(story.sent.assignment->world_size == 4);
}

TEST_CASE("what is put back before the workers start is told with the heartbeats") {
  agent_story story;
  story.connect();
  story.prepare(1, 2);
  story.assign(1, 0, 2);
  REQUIRE(story.machine().phase() == member_phase::starting);
  story.tell(workers_restoring{1, 1 << 30});
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.phase == member_phase::starting);
  CHECK(story.sent.restored == 1 << 30);
  story.tell(workers_restoring{7, 3});  // of another round
  story.tell(workers_restoring{1, std::uint64_t{2} << 30});
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.restored == std::uint64_t{2} << 30);
  story.tell(workers_started{1});
  CHECK(story.sent.phase == member_phase::running);
  CHECK(story.sent.restored == 0);
}

TEST_CASE("a service that cannot be opened fails the round as a start") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = 2;
  story.say(order);
  story.tell(service_failed{1, "port 29500: Address already in use"});
  CHECK(story.sent.phase == member_phase::failed);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].kind == cause_class::start);
  CHECK(story.sent.causes[0].text == "port 29500: Address already in use");
}

TEST_CASE("no leader is told the session by which a member is known to the daemon") {
  core::agent_options options = agent_story::default_options();
  options.tether_session = {3, 4};
  REQUIRE(options.greeting.session != options.tether_session);
  agent_story story(options);
  story.connect();
  story.assign(1, 1, 2);
  REQUIRE(story.all<dial_tether>().size() == 1);
  CHECK(story.all<dial_tether>()[0].hello.session == options.tether_session);
}

TEST_CASE("a member dials the leader before it starts workers") {
  agent_story story;
  story.connect();
  story.assign(1, 1, 2);
  REQUIRE(story.all<dial_tether>().size() == 1);
  CHECK(story.all<dial_tether>()[0].address == "10.0.0.1");
  CHECK(story.all<dial_tether>()[0].hello.group_rank == 1);
  CHECK_FALSE(story.did<start_workers>());
  CHECK(story.machine().phase() == member_phase::assigned);
  story.tell(tether_connected{1});
  CHECK_FALSE(story.did<start_workers>());
  story.tell(tether_acked{1, 0});
  CHECK(story.did<start_workers>());
}

TEST_CASE("a leader that cannot be reached is a start failure that names both addresses") {
  agent_story story;
  story.connect();
  story.assign(1, 1, 2);
  for (int tries = 0; tries < 400 && story.machine().phase() == member_phase::assigned; ++tries) {
    story.tell(tether_disconnected{1, "No route to host"});
    story.pass(100ms);
  }
  CHECK(story.sent.phase == member_phase::failed);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].kind == cause_class::start);
  CHECK(story.sent.causes[0].text ==
        "cannot reach the leader node-a at 10.0.0.1:29500 from 10.0.0.2, tried for 30 s; the last "
        "try: No route to host; check for a firewall between the two (ddprun doctor)");
  CHECK_FALSE(story.did<start_workers>());
}

TEST_CASE("on the way to running a heartbeat says how far a node is, no status of its own") {
  agent_story story;
  story.connect();
  const std::size_t before = story.statuses;
  story.assign(1, 1, 2);
  story.reach_leader();
  CHECK(story.machine().phase() == member_phase::starting);
  CHECK(story.statuses == before);
  story.tell(workers_started{1});
  CHECK(story.statuses == before + 1);
  CHECK(story.sent.phase == member_phase::running);

  agent_story slow;
  slow.connect();
  slow.assign(1, 1, 2);
  slow.pass(slow.timing.heartbeat_interval);
  CHECK(slow.sent.phase == member_phase::assigned);
  CHECK(slow.sent.round == 1);
}

TEST_CASE("the first failure is told at once, and the other workers run on until the stop") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.worker_fails(1);
  CHECK(story.sent.phase == member_phase::failed);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].rank == 3U);
  CHECK(story.sent.causes[0].node == "node-b");
  CHECK(story.sent.causes[0].group_rank == 1);
  CHECK_FALSE(story.did<stop_workers>());
  story.pass(5s);
  CHECK(story.sent.causes[0].age >= 4s);  // at the moment of each sending
  CHECK_FALSE(story.did<stop_workers>());

  story.want(desired_phase::stop, 1);
  CHECK(story.sent.phase == member_phase::stopping);
  CHECK(story.did<stop_workers>());
  story.worker_fails(0, 143);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.causes.size() == 1);
}

TEST_CASE("a stop is acknowledged after the tether was let go, never before") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.want(desired_phase::stop, 1);
  CHECK(story.did<drop_tether>());
  CHECK(story.index_of<drop_tether>() < story.index_of<send_to_daemon>());

  agent_story leader;
  leader.run_as_leader(3);
  leader.forget();
  leader.want(desired_phase::stop, 1);
  CHECK(leader.did<drop_members>());
  CHECK(leader.index_of<drop_members>() < leader.index_of<send_to_daemon>());
  leader.forget();
  leader.tell(member_beat{101, {50}});
  CHECK_FALSE(leader.did<ack_member>());
  leader.attach(1, 300);
  CHECK(leader.did<refuse_member>());
}

TEST_CASE("workers that end after our stop are marked so") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(15);
  CHECK(story.sent.phase == member_phase::stopped);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].by_our_stop);
}

TEST_CASE("a worker that had died before our stop is no victim of it, however late it is told") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.pass(100ms);
  story.worker_ends_by(0, 15, 90ms);
  story.worker_fails(1,
                     agent_story::cause_of(cause_class::signal, 11, 200ms, "Segmentation fault"));
  CHECK(story.sent.phase == member_phase::stopped);
  REQUIRE(story.sent.causes.size() == 2);
  CHECK(story.sent.causes[0].code == 11);
  CHECK_FALSE(story.sent.causes[0].by_our_stop);
  CHECK(story.sent.causes[0].tail == "Segmentation fault");
  CHECK(story.sent.causes[1].by_our_stop);
}

TEST_CASE("of many causes those are told that are likeliest the first") {
  core::agent_options options = agent_story::default_options();
  options.greeting.worker_count = 8;
  agent_story story(options);
  story.connect();
  desired value = story.order(desired_phase::run, 1);
  value.assignment = assignment{1, 2, 8, 16, "10.0.0.1", 29501, 29500, "node-a", {}};
  story.say(value);
  story.reach_leader();
  story.tell(workers_started{1});
  story.daemon_acks = false;  // what was acknowledged is not sent again
  for (std::uint32_t local_rank = 0; local_rank < 8; ++local_rank) {
    const cause_class kind = local_rank == 6 ? cause_class::signal : cause_class::exit;
    story.worker_fails(
        local_rank, agent_story::cause_of(kind, static_cast<int>(local_rank) + 1, local_rank * 10ms,
                                          "tail " + std::to_string(local_rank)));
  }
  REQUIRE(story.sent.causes.size() == causes_max);
  const std::vector<int> codes = {7, 8, 6, 5};
  for (std::size_t index = 0; index < codes.size(); ++index) {
    CHECK(story.sent.causes[index].code == codes[index]);
    CHECK(story.sent.causes[index].tail.empty() == (index != 0));
  }
}

TEST_CASE("stop asks, kills after the grace, and names what outlives SIGKILL") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.want(desired_phase::stop, 1);
  CHECK(story.all<stop_workers>()[0].signal == 15);
  story.pass(story.timing.stop_grace - 1ms);
  CHECK_FALSE(story.did<kill_workers>());
  story.pass(1ms);
  CHECK(story.all<kill_workers>().size() == 1);
  story.worker_fails(0, 137);
  CHECK(story.sent.phase == member_phase::stopping);
  story.pass(story.timing.kill_wait);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.unkillable == 1);

  SECTION("and takes no part until they have ended") {
    story.forget();
    story.assign(2, 1, 2);
    CHECK_FALSE(story.did<dial_tether>());
    CHECK(story.sent.phase == member_phase::stopped);
    CHECK(story.sent.round == 1);
    story.worker_fails(1, 137);
    CHECK(story.did<dial_tether>());
    CHECK(story.machine().round() == 2);
    story.reach_leader();
    story.tell(workers_started{2});
    CHECK(story.sent.round == 2);
    CHECK(story.sent.unkillable == 0);
  }
  SECTION("and says no goodbye over them") {
    story.want(desired_phase::close, 1);
    REQUIRE(story.left);
    CHECK_FALSE(story.said_goodbye());
  }
}

TEST_CASE("a stopped round is never entered again; the next one is") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.workers_end_by_signal(15);
  story.forget();
  story.assign(1, 1, 2);
  CHECK_FALSE(story.did<dial_tether>());
  CHECK(story.sent.phase == member_phase::stopped);
  story.assign(2, 1, 2);
  CHECK(story.did<dial_tether>());
  story.reach_leader();
  REQUIRE(story.did<start_workers>());
  CHECK(story.all<start_workers>()[0].round == 2);
  story.tell(workers_started{2});
  CHECK(story.sent.causes.empty());
}

TEST_CASE("a stop that overtakes its assignment is answered for that round") {
  agent_story story;
  story.connect();
  story.want(desired_phase::stop, 4);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 4);
  story.assign(4, 1, 2);
  CHECK_FALSE(story.did<dial_tether>());
}

TEST_CASE("a newer round first takes down what still lives of an older one, without grace") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.assign(2, 1, 2);
  CHECK(story.did<kill_workers>());
  CHECK_FALSE(story.did<dial_tether>());
  story.workers_end_by_signal(9);
  CHECK(story.did<dial_tether>());
  CHECK(story.machine().round() == 2);
  CHECK(story.machine().phase() == member_phase::assigned);
}

TEST_CASE("success is final, and the leader serves the store until the round is over") {
  agent_story story;
  story.run_as_leader(2);
  story.forget();
  story.worker_succeeds(0);
  CHECK(story.sent.phase == member_phase::running);
  story.worker_succeeds(1);
  CHECK(story.sent.phase == member_phase::succeeded);
  story.pass_with_members(3600s);
  CHECK(story.sent.phase == member_phase::succeeded);
  CHECK_FALSE(story.did<close_service>());
  desired order = story.order(desired_phase::run, 1);
  order.text = "waiting for node-a";
  story.say(order);
  CHECK(story.machine().why(story.now()) ==
        "round 1: the workers of this node succeeded; waiting for node-a");
  story.want(desired_phase::close, 1);
  CHECK(story.did<close_service>());
  CHECK(story.said_goodbye());
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 0);
}

TEST_CASE("a worker that could not be started fails the round") {
  agent_story story;
  story.connect();
  story.assign(1, 1, 2);
  story.reach_leader();
  cause why;
  why.kind = cause_class::start;
  why.code = 13;
  why.text = "cannot execute train.py: Permission denied";
  story.tell(worker_ended{1, 0, false, why});
  CHECK(story.sent.phase == member_phase::failed);
  CHECK(story.sent.causes[0].text == why.text);
  story.tell(workers_started{1});
  CHECK(story.sent.phase == member_phase::failed);
}

TEST_CASE("close stops what runs, then leaves with the code and the words it was given") {
  agent_story story;
  story.run_as_member();
  story.forget();
  desired order = story.order(desired_phase::close, 1);
  order.exit_code = 3;
  order.text = "node-a: rank 0 exited with 3";
  story.say(order);
  CHECK(story.did<stop_workers>());
  CHECK_FALSE(story.left);
  story.workers_end_by_signal(15);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 3);
  CHECK(story.left->text == order.text);
  CHECK(story.said_goodbye());
}

TEST_CASE("an assignment that makes no sense is a failure, not a crash") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::run, 1);
  SECTION("no place") {}
  SECTION("a group rank outside the round") {
    order.assignment = assignment{5, 2, 0, 4, "10.0.0.1", 1, 1, "node-a", {}};
  }
  SECTION("more ranks than the world has") {
    order.assignment = assignment{1, 2, 3, 4, "10.0.0.1", 1, 1, "node-a", {}};
  }
  SECTION("leading without having prepared") {
    order.assignment = assignment{0, 2, 0, 4, "10.0.0.1", 1, 1, "node-a", {}};
  }
  story.say(order);
  CHECK(story.sent.phase == member_phase::failed);
  CHECK_FALSE(story.did<start_workers>());
}

TEST_CASE("what was given to a round whose service failed is not told in the next") {
  agent_story story;
  story.connect();
  story.want(desired_phase::prepare, 1);
  story.tell(service_opened{1, 29500, 29501, {"id", {}}});
  REQUIRE(story.sent.leader_data.bytes == "id");
  story.tell(service_failed{1, "gone"});
  story.want(desired_phase::stop, 1);
  story.want(desired_phase::prepare, 2);
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.round == 2);
  CHECK(story.sent.leader_data == leader_data{});
}
