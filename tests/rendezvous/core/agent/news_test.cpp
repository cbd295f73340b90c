// Which of the daemon's messages are news to an agent, by their epoch, instance, round and sequence
// number; and what it remembers of them.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

TEST_CASE("a daemon of an older epoch is hung up on") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::wait, 0);
  order.epoch = 5;
  story.say(order);
  CHECK(story.sent.instance == agent_story::instance);
  story.lose_daemon();
  story.tell(daemon_connected{"10.0.0.2"});
  story.forget();
  welcome old;
  old.epoch = 4;
  story.say(old);
  CHECK(story.did<disconnect_daemon>());
  CHECK(story.did<connect_daemon>());
  story.forget();
  story.tell(daemon_connected{"10.0.0.2"});
  welcome current;
  current.epoch = 5;
  story.say(current);
  CHECK_FALSE(story.did<disconnect_daemon>());
}

TEST_CASE("a message of an older epoch is ignored, the first of a newer one counts") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::wait, 3);
  order.epoch = 5;
  order.seq = 50;
  story.say(order);
  order = story.order(desired_phase::stop, 9);
  order.epoch = 4;
  order.seq = 90;
  story.say(order);
  CHECK(story.sent.phase == member_phase::joined);
  order = story.order(desired_phase::stop, 2);
  order.epoch = 6;
  order.seq = 1;
  story.say(order);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 2);
}

TEST_CASE("the epoch of the welcome holds, too") {
  agent_story story;
  story.tell(daemon_connected{"10.0.0.2"});
  welcome words;
  words.epoch = 5;
  story.say(words);
  desired order = story.order(desired_phase::stop, 4);
  order.epoch = 4;
  story.say(order);
  CHECK(story.sent.phase == member_phase::joined);
  story.lose_daemon();
  story.tell(daemon_connected{"10.0.0.2"});
  story.forget();
  words.epoch = 4;
  story.say(words);
  CHECK(story.did<disconnect_daemon>());
}

TEST_CASE("a daemon of a newer epoch that counts from the beginning is obeyed") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::wait, 3);
  order.epoch = 5;
  order.seq = 50;
  story.say(order);
  story.lose_daemon();
  story.tell(daemon_connected{"10.0.0.2"});
  welcome words;
  words.epoch = 6;
  story.say(words);
  order = story.order(desired_phase::stop, 3);
  order.epoch = 6;
  order.seq = 1;
  story.say(order);
  CHECK(story.sent.phase == member_phase::stopped);
}

TEST_CASE("a message before the welcome, or on no connection, is ignored") {
  agent_story story;
  const desired order = story.order(desired_phase::stop, 4);
  story.say(order);
  CHECK(story.machine().phase() == member_phase::joined);
  story.tell(daemon_connected{"10.0.0.2"});
  story.say(order);
  CHECK(story.machine().phase() == member_phase::joined);
  story.tell(daemon_said{nullptr});
  story.say(welcome{});
  story.say(order);
  CHECK(story.machine().phase() == member_phase::stopped);
  story.lose_daemon();
  story.say(story.order(desired_phase::wait, 5));
  CHECK(story.machine().phase() == member_phase::stopped);
}

TEST_CASE("the same message again is no news: no status is sent") {
  agent_story story;
  story.connect();
  const desired order = story.order(desired_phase::wait, 4);
  story.say(order);
  const std::size_t before = story.statuses;
  story.say(order);
  CHECK(story.statuses == before);
}

TEST_CASE("a higher round is news, even with a lower sequence number") {
  agent_story story;
  story.connect();
  story.want(desired_phase::wait, 4);
  desired order = story.order(desired_phase::stop, 5);
  order.seq = 0;
  story.say(order);
  CHECK(story.sent.phase == member_phase::stopped);
  CHECK(story.sent.round == 5);
}

TEST_CASE("on one connection the higher number is the later message, whatever its instance") {
  agent_story story;
  story.connect();
  const auto wait_in = [&](instance_id instance, std::uint64_t seq) {
    desired order = story.order(desired_phase::wait, 0);
    order.instance = instance;
    order.seq = seq;
    story.say(order);
    return story.sent.instance;
  };
  CHECK(wait_in(1, 5) == 1);
  CHECK(wait_in(2, 5) == 1);
  CHECK(wait_in(2, 6) == 2);
  CHECK(wait_in(1, 5) == 2);
  CHECK(wait_in(1, 6) == 2);
  CHECK(wait_in(1, 7) == 1);
  SECTION("another connection counts for itself") {
    story.lose_daemon();
    story.connect();
    CHECK(wait_in(2, 1) == 2);
    CHECK(wait_in(1, 1) == 2);
    CHECK(wait_in(1, 2) == 1);
  }
}

TEST_CASE("what one instance counted says nothing about the next") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::stop, 7);
  order.restarts_used = 2;
  story.say(order);
  CHECK(story.sent.round == 7);
  CHECK(story.sent.round_told == 7);
  CHECK(story.sent.restarts_used == 2);
  order = story.order(desired_phase::wait, 1);
  order.instance = 5;
  story.say(order);
  CHECK(story.sent.instance == 5);
  CHECK(story.sent.round == 0);
  CHECK(story.sent.round_told == 1);
  CHECK(story.sent.restarts_used == 0);
  CHECK(story.sent.desired_seq == order.seq);
}

TEST_CASE("the newest round that was named is said, also by one that waits") {
  agent_story story;
  story.connect();
  story.want(desired_phase::wait, 7);
  CHECK(story.sent.round == 0);
  CHECK(story.sent.round_told == 7);
  desired order = story.order(desired_phase::wait, 6);
  story.say(order);
  CHECK(story.sent.round_told == 7);
}

TEST_CASE("the number of restarts never falls, whichever message carries it") {
  const desired_phase told = GENERATE(desired_phase::wait, desired_phase::prepare,
                                      desired_phase::run, desired_phase::stop);
  agent_story story;
  story.connect();
  const auto say_with = [&](round_number round, std::uint32_t restarts_used) {
    desired order = story.order(told, round);
    order.restarts_used = restarts_used;
    order.group_world_size = 2;
    order.assignment = assignment{1, 2, 2, 4, "10.0.0.1", 29501, 29500, "node-a", {}};
    story.say(order);
    story.pass(story.timing.heartbeat_interval);
    if (told == desired_phase::prepare) story.tell(service_opened{round, 29500, 29501, {}});
  };
  say_with(1, 2);
  CHECK(story.sent.restarts_used == 2);
  say_with(1, 1);
  CHECK(story.sent.restarts_used == 2);
  say_with(1, 3);
  CHECK(story.sent.restarts_used == 3);
}

TEST_CASE("a node in no instance listens to any, and remembers nothing of the last") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::fence, 9);
  story.workers_end_by_signal(SIGKILL);
  story.lose_daemon();
  story.desired_seq = 0;
  story.connect();
  const round_number told = GENERATE(0U, 2U);
  story.want(desired_phase::wait, told);
  CHECK(story.sent.instance == agent_story::instance);
  CHECK(story.sent.round_told == told);
  CHECK(story.sent.desired_seq == 1);
}

TEST_CASE("a node that was fenced hears a new daemon that counts from the beginning") {
  agent_story story;
  story.run_as_member();
  story.desired_seq = 500;
  story.want(desired_phase::fence, 4);
  story.workers_end_by_signal(SIGKILL);
  REQUIRE(story.sent.instance == 0);
  story.lose_daemon();
  story.connect();
  story.desired_seq = 0;
  story.want(desired_phase::wait, 0);
  CHECK(story.sent.instance == agent_story::instance);
  CHECK(story.sent.desired_seq == 1);
  CHECK(story.sent.round_told == 0);
}

TEST_CASE("the rounds of an instance that is over are not said to be of the next one") {
  agent_story story;
  story.connect();
  story.want(desired_phase::wait, 5);
  CHECK(story.sent.round_told == 5);
  desired next = story.order(desired_phase::wait, 0);
  next.instance = 78;
  story.say(next);
  CHECK(story.sent.instance == 78);
  CHECK(story.sent.round_told == 0);
}

TEST_CASE("a leader says at once that its service is open, however long that took") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = 2;
  story.say(order);
  story.pass(1500ms);
  const std::size_t before = story.statuses;
  story.tell(service_opened{1, 29500, 29501, {}});
  CHECK(story.statuses == before + 1);
  CHECK(story.sent.service_port == 29500);
}

TEST_CASE("a leader that cannot prepare says so of its own group rank") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = 2;
  story.say(order);
  story.tell(service_failed{1, "out of descriptors"});
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].group_rank == 0);
  CHECK(story.sent.causes[0].round == 1);
}
