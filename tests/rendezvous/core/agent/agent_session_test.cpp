// The session to the daemon: when a status is sent and what is in it, whose acks renew the lease,
// how often the agent dials again, and when it gives up.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>
#include <set>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

// How long from `story.now()` until the workers of a node that has no other contact are killed.
duration until_killed(agent_story& story) {
  story.daemon_acks = false;
  story.leader_acks = false;
  story.forget();
  const time_point from = story.now();
  while (!story.did<kill_workers>() && story.now() < from + 60s)
    story.pass(1ms);
  return story.now() - from;
}

}  // namespace

TEST_CASE("a leader says nothing of a round until its service is open, then everything at once") {
  agent_story story;
  story.connect();
  const std::size_t before = story.statuses;
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = 2;
  story.say(order);
  CHECK(story.statuses == before);
  story.tell(service_opened{1, 29500, 29501, {"id-0,id-1", "two ids"}});
  CHECK(story.statuses == before + 1);
  CHECK(story.sent.phase == member_phase::preparing);
  CHECK(story.sent.service_port == 29500);
  CHECK(story.sent.master_port == 29501);
  CHECK(story.sent.leader_data == leader_data{"id-0,id-1", "two ids"});
  // The next round has its own ports and data.
  story.want(desired_phase::wait, 1);
  CHECK(story.sent.service_port == 0);
  CHECK(story.sent.master_port == 0);
  CHECK(story.sent.leader_data == leader_data{});
}

TEST_CASE("a service's report about another round, or a second one about its own, is ignored") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::prepare, 2);
  order.group_world_size = 2;
  story.say(order);
  story.tell(service_opened{1, 29500, 29501, {}});
  CHECK(story.sent.service_port == 0);
  story.tell(service_failed{1, "in use"});
  CHECK(story.machine().phase() == member_phase::preparing);
  story.tell(service_opened{2, 29500, 29501, {}});
  story.assign(2, 0, 2);
  story.tell(service_opened{2, 1, 1, {}});
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.service_port == 29500);
}

TEST_CASE("a leader that would give more than is passed on cannot lead, and says why") {
  agent_story story;
  story.connect();
  desired order = story.order(desired_phase::prepare, 1);
  order.group_world_size = 2;
  story.say(order);
  story.tell(service_opened{1, 29500, 29501, {std::string(leader_data_bytes_max + 1, 'x'), {}}});
  CHECK(story.sent.phase == member_phase::failed);
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].text.find("leader_data: 4097 bytes, the limit is 4096") !=
        std::string::npos);
}

TEST_CASE("only an ack of a status of this connection renews the lease") {
  agent_story story;
  story.run_as_member();
  story.daemon_acks = false;
  story.pass(3s);
  const std::uint64_t unanswered = story.sent.seq;
  story.tell(daemon_connected{"10.0.0.2"});
  welcome words;
  words.timing = story.timing;
  story.say(words);
  story.leader_acks = false;
  const time_point from = story.now();
  SECTION("one of the connection before says nothing") {
    story.say(ack{unanswered});
    CHECK(until_killed(story) <= story.timing.isolation_limit - 160ms);
  }
  SECTION("one that was never sent says nothing") {
    story.say(ack{story.sent.seq + 1});
    CHECK(until_killed(story) <= story.timing.isolation_limit - 160ms);
  }
  SECTION("one to the hello renews it from when that was sent") {
    story.pass(500ms);
    story.say(ack{unanswered + 1});
    until_killed(story);
    CHECK(story.now() == from + story.timing.isolation_limit * 98 / 100);
  }
}

TEST_CASE("an agent that was told another time for a signal's end says that when it comes again") {
  agent_story story;
  story.run_as_member();
  const duration own = story.timing.drain_grace;
  CHECK(story.machine().timing().drain_grace == own);
  story.timing.drain_grace = own + 7s;
  story.lose_daemon();
  story.connect();
  CHECK(story.machine().timing().drain_grace == own + 7s);
  CHECK(story.greeted.settings.timing.drain_grace == own);
  story.lose_daemon();
  story.connect();
  CHECK(story.greeted.settings.timing == story.timing);
}

TEST_CASE("a late answer never shortens the lease") {
  agent_story story;
  story.run_as_member();
  story.leader_acks = false;
  story.pass(500ms);
  story.worker_fails(0);  // reported and acknowledged
  story.want(desired_phase::stop, 1);
  const time_point newest = story.now();
  story.pass(200ms);
  story.say(ack{1});
  until_killed(story);
  CHECK(story.now() <= newest + story.timing.isolation_limit * 98 / 100);
  CHECK(story.now() >= newest + 5s);
}

TEST_CASE("of unanswered statuses, the first 64 are remembered") {
  agent_story story;
  story.run_as_member();
  story.daemon_acks = false;
  const auto heard_but_unanswered = [&] { story.want(desired_phase::run, 1); };
  time_point last_remembered;
  for (int sent = 1; sent <= 70; ++sent) {
    story.pass(50ms);
    const std::size_t before = story.statuses;
    heard_but_unanswered();
    REQUIRE(story.statuses == before + 1);
    if (sent == 64 - 3) last_remembered = story.now();
  }
  story.say(ack{story.sent.seq});
  until_killed(story);
  const time_point leased_from = story.now() - story.timing.isolation_limit * 98 / 100;
  CHECK(leased_from < story.now() - 7s);
  CHECK(leased_from >= last_remembered);
  CHECK(leased_from <= last_remembered + 200ms);
}

TEST_CASE("timers that would make a node spin or wait for ever are not taken") {
  const int which = GENERATE(0, 1, 2, 3);
  agent_story story;
  story.timing = timers_for(3s);
  story.connect();
  const timers good = story.timing;
  timers given = timers_for(20s);
  duration* const each[] = {&given.heartbeat_interval, &given.isolation_limit, &given.node_timeout,
                            &given.reconnect_grace};
  *each[which] = 0s;
  story.timing = given;
  story.lose_daemon();
  story.forget();
  story.connect();
  CHECK(story.did<disconnect_daemon>());
  story.timing = good;
  story.connect();
  const std::size_t before = story.statuses;
  story.pass(3s);
  CHECK(story.statuses == before + 3s / good.heartbeat_interval);
}

TEST_CASE("an epoch beyond the largest count is refused") {
  agent_story story;
  story.epoch = count_max + 1;
  story.connect();
  CHECK(story.did<disconnect_daemon>());
  story.epoch = 1;
  story.connect();
  story.pass(3s);
  CHECK(story.sent.epoch == 1);
}

TEST_CASE("how long until the next try: from reconnect_grace, within half and one and a half") {
  const duration grace = GENERATE(as<duration>{}, 400ms, 2s, 30s);
  agent_story story;
  story.timing.reconnect_grace = grace;
  story.connect();
  for (int life = 0; life < 2; ++life) {
    story.forget();
    for (int tries = 0; tries < 20; ++tries)
      story.lose_daemon();
    const auto dials = story.all<connect_daemon>();
    REQUIRE(dials.size() == 20);
    const duration longest = std::min<duration>(grace / 2, 1s);
    duration expected = std::min(longest, grace / 8);
    std::set<duration> delays;
    for (const connect_daemon& dial : dials) {
      CHECK(dial.delay >= expected / 2);
      CHECK(dial.delay <= expected * 3 / 2);
      expected = std::min(longest, expected * 2);
      delays.insert(dial.delay);
    }
    CHECK(delays.size() > 15);  // never all at once
    story.connect();            // after a welcome the first try is soon again
  }
}

TEST_CASE("until one has welcomed it, an agent tries each endpoint in turn; then it stays") {
  core::agent_options options = agent_story::default_options();
  options.endpoints = {"a:1", "b:2", "c:3"};
  agent_story story(options);
  const auto next = [&story] {
    story.forget();
    story.lose_daemon();
    return story.all<connect_daemon>().back().endpoint;
  };
  CHECK(next() == 1);
  CHECK(next() == 2);
  CHECK(story.machine().why(story.now()).find("a:1 or b:2 or c:3") != std::string::npos);
  CHECK(next() == 0);
  CHECK(next() == 1);
  story.connect();
  CHECK(next() == 1);  // two daemons that know nothing of each other must not share its run
  CHECK(next() == 1);
}

TEST_CASE("a daemon that falls silent after its welcome is dialled again, and no other") {
  core::agent_options options = agent_story::default_options();
  options.endpoints = {"a:1", "b:2"};
  agent_story story(options);
  story.connect();
  story.daemon_acks = false;
  story.forget();
  story.pass(story.timing.isolation_limit / 2);
  REQUIRE(story.did<disconnect_daemon>());
  CHECK(story.all<connect_daemon>().back().endpoint == 0);
}

TEST_CASE("daemons with an epoch know which of them decides: the next one is asked") {
  core::agent_options options = agent_story::default_options();
  options.endpoints = {"a:1", "b:2"};
  agent_story story(options);
  story.epoch = 3;
  story.connect();
  story.pass(3s);
  CHECK(story.sent.epoch == 3);
  story.forget();
  story.lose_daemon();  // the same endpoint is dialled at once
  CHECK(story.all<connect_daemon>().back().endpoint == 0);
  story.lose_daemon();
  CHECK(story.all<connect_daemon>().back().endpoint == 1);
}

TEST_CASE("a daemon that may not decide sends the agent on; it is no reason to leave") {
  core::agent_options options = agent_story::default_options();
  options.endpoints = {"a:1", "b:2"};
  agent_story story(options);
  story.epoch = 3;
  story.connect();
  story.want(desired_phase::wait, 0);
  story.forget();
  story.say(not_primary{"its epoch is 2"});
  CHECK(story.did<disconnect_daemon>());
  CHECK(story.all<connect_daemon>().back().endpoint == 1);
  CHECK_FALSE(story.left);
  const std::size_t notes = story.all<agent_note>().size();
  story.tell(daemon_connected{"10.0.0.2"});
  story.say(not_primary{"nor is this one"});
  CHECK(story.all<connect_daemon>().back().endpoint == 0);
  CHECK(story.all<agent_note>().size() == notes);  // said once
}

TEST_CASE("a daemon is given up join_timeout after it was lost, not after the last try") {
  agent_story story;
  story.timing.join_timeout = 60s;
  story.connect();
  story.want(desired_phase::wait, 0);
  story.pass(100s);
  story.lose_daemon();
  const time_point lost = story.now();
  while (!story.left && story.now() < lost + 200s) {
    story.pass(700ms);
    if (!story.left) story.lose_daemon();
  }
  CHECK(story.now() >= lost + 60s);
  CHECK(story.now() <= lost + 61s);
}

TEST_CASE("a node that waits without a daemon is due again when join_timeout is over") {
  agent_story story;
  const time_point began = story.now();
  story.lose_daemon();
  REQUIRE(story.machine().next_deadline());
  CHECK(*story.machine().next_deadline() == began + story.timing.join_timeout);
  story.pass(story.timing.join_timeout);
  REQUIRE(story.left);
  CHECK_FALSE(story.machine().next_deadline());
}

TEST_CASE("a node alone that has succeeded leaves with 0 where no daemon comes back") {
  agent_story story;
  story.run_as_leader(1);
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.lose_daemon();
  story.pass(story.timing.join_timeout);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 0);
}

TEST_CASE("one of two that has succeeded does not know how the run ended, and exits with 69") {
  agent_story story;
  story.run_as_member();
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.lose_daemon();
  const time_point lost = story.now();
  // The leader's acks show that the round is still running, and no member leaves a running round.
  story.pass(2 * story.timing.join_timeout);
  CHECK_FALSE(story.left);
  story.leader_acks = false;
  const time_point silent = story.now();
  story.pass(story.timing.join_timeout - 2s);
  CHECK_FALSE(story.left);
  story.pass(2s);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == unmet_exit_code);
  CHECK(silent > lost);
}

TEST_CASE("workers with a lease keep a node from giving up, unkillable ones do not") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::stop, 1);
  story.pass(story.timing.stop_grace + story.timing.kill_wait);
  REQUIRE(story.sent.unkillable == 2);
  story.lose_daemon();
  story.pass(story.timing.join_timeout);
  CHECK(story.left);
  CHECK_FALSE(story.said_goodbye());
}

TEST_CASE("a refusal without a code exits like any refusal") {
  agent_story story;
  story.connect();
  story.forget();
  story.say(refused{0, "no"});
  REQUIRE(story.left);
  CHECK(story.left->exit_code == refused_exit_code);
  CHECK(story.did<disconnect_daemon>());
  CHECK_FALSE(story.said_goodbye());  // there is nobody to say it to
}

TEST_CASE("a node that has left does and sends nothing more") {
  agent_story story;
  story.connect();
  story.want(desired_phase::close, 0);
  REQUIRE(story.left);
  story.forget();
  story.tell(daemon_connected{"10.0.0.2"});
  story.tell(signal_received{SIGTERM});
  story.tell(agent_time_passed{});
  CHECK_FALSE(story.did<send_to_daemon>());
  CHECK_FALSE(story.did<leave>());
  CHECK_FALSE(story.machine().next_deadline());
}

TEST_CASE("a connection on which nothing is said is dropped after half the isolation limit") {
  agent_story story;
  story.timing.isolation_limit = 7s;
  story.connect();
  story.daemon_acks = false;
  story.pass(1700ms);
  story.say(ack{0});  // any message counts
  story.forget();
  story.pass(3500ms - 1ms);
  CHECK_FALSE(story.did<disconnect_daemon>());
  story.pass(1ms);
  CHECK(story.did<disconnect_daemon>());
  story.forget();
  story.tell(daemon_connected{"10.0.0.2"});
  story.pass(3500ms - 1ms);
  CHECK_FALSE(story.did<disconnect_daemon>());
  story.pass(1ms);
  CHECK(story.did<disconnect_daemon>());
}

TEST_CASE("a draining node whose daemon never answered leaves when that goes") {
  agent_story story;
  story.daemon_acks = false;
  story.connect();
  story.prepare(1, 2);
  story.tell(signal_received{SIGTERM});
  CHECK_FALSE(story.left);
  story.lose_daemon();
  REQUIRE(story.left);
  CHECK(story.left->exit_code == 128 + SIGTERM);
}

TEST_CASE("causes are told with their age at the moment of telling") {
  agent_story story;
  story.run_as_member();
  story.worker_fails(0, agent_story::cause_of(cause_class::exit, 3, 300ms));
  CHECK(story.sent.causes.at(0).age == 300ms);
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.causes.at(0).age == 300ms + story.timing.heartbeat_interval);
}
