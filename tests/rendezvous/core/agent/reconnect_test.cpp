#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <set>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using Catch::Contains;
using Catch::StartsWith;
using ddprun::tests::agent_story;

namespace {

std::string notes(const agent_story& story) {
  std::string text;
  for (const agent_note& note : story.all<agent_note>())
    text += note.text + "\n";
  return text;
}

}  // namespace

TEST_CASE("the hello carries everything, again on each connection") {
  agent_story story;
  story.run_as_member();
  story.worker_fails(0);
  story.lose_daemon();
  story.forget();
  story.tell(daemon_connected{"10.0.0.9"});
  REQUIRE(story.all<send_to_daemon>().size() == 1);
  const hello greeting = std::get<hello>(story.all<send_to_daemon>()[0].message);
  CHECK(greeting.own_address == "10.0.0.9");
  CHECK(greeting.state.instance == agent_story::instance);
  CHECK(greeting.state.round == 1);
  CHECK(greeting.state.phase == member_phase::failed);
  CHECK(greeting.state.desired_seq == story.desired_seq);
  CHECK(greeting.state.assignment->group_rank == 1);
  CHECK(greeting.state.causes.size() == 1);
}

TEST_CASE("the first hello says that nothing has happened here") {
  agent_story story;
  story.connect();
  status nothing;
  nothing.seq = story.sent.seq;
  CHECK(story.sent == nothing);
}

TEST_CASE("tries to connect differ from node to node") {
  std::set<duration> first;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    agent_options options = agent_story::default_options();
    options.seed = seed;
    agent_story story(std::move(options));
    story.connect();
    story.forget();
    story.lose_daemon();
    first.insert(story.all<connect_daemon>().front().delay);
  }
  CHECK(first.size() > 4);
}

TEST_CASE("a message older than the newest one is ignored") {
  agent_story story;
  story.connect();
  const desired old_run = [&] {
    desired value = story.order(desired_phase::run, 1);
    value.assignment = assignment{1, 2, 2, 4, "10.0.0.1", 1, 1, "node-a", {}};
    return value;
  }();
  story.want(desired_phase::wait, 2);
  story.say(old_run);
  CHECK(story.sent.phase == member_phase::joined);
  CHECK_FALSE(story.did<dial_tether>());
  SECTION("the same word again, too") {
    story.assign(3, 1, 2);
    desired again = story.order(desired_phase::stop, 3);
    again.seq = --story.desired_seq;
    story.say(again);
    CHECK(story.machine().phase() == member_phase::assigned);
  }
  SECTION("of an instance that this connection has left behind, too, until it is named anew") {
    const desired late = story.order(desired_phase::wait, 9);
    desired other = story.order(desired_phase::wait, 0);
    other.instance = 5;
    story.say(other);
    CHECK(story.sent.instance == 5);
    story.say(late);
    CHECK(story.sent.instance == 5);
    story.want(desired_phase::wait, 2);
    CHECK(story.sent.instance == agent_story::instance);
  }
}

TEST_CASE("a round that a fenced node left is not entered again, whatever a new daemon says") {
  agent_story story;
  story.run_as_member();
  story.want(desired_phase::fence, 1);
  story.workers_end_by_signal(9);
  story.lose_daemon();
  story.desired_seq = 0;
  story.connect();
  story.forget();
  story.assign(1, 1, 2);
  CHECK_FALSE(story.did<dial_tether>());
  CHECK(story.sent.round == 1);
  CHECK(story.sent.phase == member_phase::stopped);
  story.assign(2, 1, 2);
  CHECK(story.did<dial_tether>());
}

TEST_CASE("another instance fences the workers of this one") {
  agent_story story;
  story.run_as_member();
  story.forget();
  desired other = story.order(desired_phase::wait, 0);
  other.instance = 5;
  story.say(other);
  CHECK(story.did<kill_workers>());
  story.workers_end_by_signal(9);
  CHECK(story.sent.instance == 5);
  CHECK(story.sent.phase == member_phase::joined);
}

TEST_CASE("a restarted daemon that sends the same state does not disturb a running round") {
  agent_story story;
  story.run_as_member();
  story.lose_daemon();
  story.pass(30s);
  story.forget();
  story.connect();
  story.assign(1, 1, 2);
  CHECK_FALSE(story.did<start_workers>());
  CHECK_FALSE(story.did<kill_workers>());
  CHECK(story.sent.phase == member_phase::running);
  CHECK(story.sent.desired_seq == story.desired_seq);
}

TEST_CASE("an endpoint that never answers is given up, with what to check") {
  agent_story story;
  for (int tries = 0; tries < 2000 && !story.left; ++tries) {
    story.lose_daemon("Connection refused");
    story.pass(1s);
  }
  REQUIRE(story.left);
  CHECK(story.left->exit_code == unmet_exit_code);
  CHECK(story.left->text ==
        "cannot reach the rendezvous daemon at 10.0.0.100:29400, tried for 10 min; the last try: "
        "Connection refused; check that it runs there, that the endpoint is right, and that no "
        "firewall is between");
}

TEST_CASE("a daemon that died with its host is tried until join_timeout, then named") {
  agent_story story;
  story.run_as_member();
  story.lose_daemon("Connection reset by peer");
  story.leader_acks = false;
  story.pass(10s);
  CHECK(story.did<kill_workers>());
  story.workers_end_by_signal(9);
  story.pass(story.timing.join_timeout);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == unmet_exit_code);
  CHECK_THAT(story.left->text, Contains("10.0.0.100:29400"));
  CHECK_THAT(story.left->text, Contains("Connection reset by peer"));
}

TEST_CASE("a leader that has succeeded stays without a daemon while others run on it") {
  agent_story story;
  story.run_as_leader(2);
  story.worker_succeeds(0);
  story.worker_succeeds(1);
  story.lose_daemon();
  story.pass_with_members(2 * story.timing.join_timeout);
  CHECK_FALSE(story.left);
  CHECK(story.did<ack_member>());
  story.members_succeeded = true;
  story.pass_with_members(story.timing.join_timeout + 2 * story.timing.heartbeat_interval);
  REQUIRE(story.left);
}

TEST_CASE("a connection without a welcome is another service's: it is dropped and tried again") {
  agent_story story;
  story.tell(daemon_connected{"10.0.0.2"});
  story.forget();
  story.pass(story.timing.isolation_limit);
  CHECK(story.did<disconnect_daemon>());
  CHECK(story.did<connect_daemon>());
  CHECK_THAT(story.machine().why(story.now()), Contains("it has not answered for"));
}

TEST_CASE("a daemon that falls silent is dialled again") {
  agent_story story;
  story.run_as_member();
  story.daemon_acks = false;
  story.forget();
  story.pass(story.timing.isolation_limit);
  CHECK(story.did<disconnect_daemon>());
  CHECK(story.did<connect_daemon>());
  CHECK_FALSE(story.did<kill_workers>());
}

TEST_CASE("a refused node says why and leaves") {
  agent_story story;
  story.tell(daemon_connected{"10.0.0.2"});
  story.say(refused{refused_exit_code, "nnodes is 1:1 here and 2:2 on the others"});
  REQUIRE(story.left);
  CHECK(story.left->exit_code == refused_exit_code);
  CHECK_THAT(story.left->text, Contains("nnodes is 1:1 here"));
  CHECK_THAT(story.all<agent_note>().back().text, Contains("10.0.0.100:29400"));
}

TEST_CASE("a node that is refused while its workers run kills them first") {
  agent_story story;
  story.run_as_member();
  story.lose_daemon();
  story.tell(daemon_connected{"10.0.0.2"});
  story.say(refused{refused_exit_code, "the run is closed"});
  CHECK(story.did<kill_workers>());
  CHECK_FALSE(story.left);
  story.workers_end_by_signal(9);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == refused_exit_code);
}

TEST_CASE("the daemon's timers hold from the welcome on, unless they make no sense") {
  agent_story story;
  story.timing = timers_for(3s);
  story.connect();
  const std::size_t before = story.statuses;
  story.pass(3s);
  CHECK(story.statuses == before + 10);
  story.lose_daemon();
  story.timing.heartbeat_interval = 0s;
  story.connect();
  story.pass(3s);
  CHECK(story.statuses < before + 25);
}

TEST_CASE("a daemon that was there before is reached again, one that never was is waited for") {
  agent_story story;
  story.lose_daemon();
  CHECK(notes(story).find("waiting for the rendezvous daemon") != std::string::npos);
  story.connect();
  CHECK(notes(story).find("again") == std::string::npos);
  story.forget();
  story.lose_daemon();
  CHECK(notes(story).find("waiting for the rendezvous daemon") == std::string::npos);
  story.pass(2s);
  story.connect();
  CHECK(notes(story).find("reached the rendezvous daemon at 10.0.0.100:29400 again, after 2 s") !=
        std::string::npos);
}

TEST_CASE("a node that was refused does not connect again while its workers end") {
  agent_story story;
  story.run_as_member();
  story.forget();
  story.say(refused{refused_exit_code, "no"});
  CHECK(story.did<kill_workers>());
  story.pass(story.timing.kill_wait - 1ms);
  CHECK_FALSE(story.did<connect_daemon>());
  CHECK_FALSE(story.left);
  story.pass(1ms);
  REQUIRE(story.left);
  CHECK(story.left->exit_code == refused_exit_code);
}

TEST_CASE("a welcome with timers that no machine can work with is none") {
  agent_story story;
  story.tell(daemon_connected{"10.0.0.2"});
  story.forget();
  welcome words;
  words.timing.heartbeat_interval = 1us;
  story.say(words);
  CHECK(story.did<disconnect_daemon>());
  CHECK(story.did<connect_daemon>());
  story.pass(700s);
  REQUIRE(story.left);
  CHECK(story.left->text.find("heartbeat_interval is 0.000001 s, and may be") != std::string::npos);
}

// What this daemon sends after its welcome cannot be read, so the connection ends there.
TEST_CASE("a daemon that only welcomes is no session: tries slow down, and end at join_timeout") {
  agent_story story;
  story.daemon_acks = false;
  story.timing.join_timeout = 60s;
  const std::string garbage = "the answer cannot be read: no JSON";
  SECTION("its connection ends") {
    int tries = 0;
    for (; tries < 200 && !story.left; ++tries) {
      story.connect();
      story.lose_daemon(garbage);
      if (!story.left) story.pass(story.all<connect_daemon>().back().delay);
    }
    // In the end half a second passes from one try to the next, and one and a half at most.
    CHECK(tries >= 40);
    CHECK(tries < 140);
  }
  SECTION("its order makes no sense") {
    for (int tries = 0; tries < 200 && !story.left; ++tries) {
      story.connect();
      desired lie = story.order(desired_phase::wait, 1);
      lie.round = count_max + 1;
      story.say(lie);
      if (!story.left) story.pass(story.all<connect_daemon>().back().delay);
    }
  }
  REQUIRE(story.left);
  CHECK(story.left->exit_code == unmet_exit_code);
  CHECK_THAT(story.left->text, StartsWith("cannot reach the rendezvous daemon at "));
  CHECK(story.now() < agent_story::origin + 62s);
  // It is said once, not at each try.
  CHECK(notes(story).find("again, after") == std::string::npos);
  CHECK(notes(story).find("lost the rendezvous daemon") == std::string::npos);
  const std::string waiting = "waiting for the rendezvous daemon";
  CHECK(notes(story).find(waiting) != std::string::npos);
  CHECK(notes(story).find(waiting) == notes(story).rfind(waiting));
}

TEST_CASE("an order that can be obeyed makes a session of a welcome, as an ack does") {
  agent_story story;
  story.daemon_acks = false;
  story.timing.join_timeout = 60s;
  const bool is_acked = GENERATE(true, false);
  const auto meet = [&] {
    story.connect();
    if (is_acked) {
      story.ack_status();
    } else {
      story.want(desired_phase::wait, 0);
    }
  };
  for (int tries = 0; tries < 20; ++tries)
    story.lose_daemon();
  meet();
  story.forget();
  story.pass(3s);
  story.lose_daemon();
  CHECK(story.all<connect_daemon>().back().delay <= story.timing.reconnect_grace / 4);
  CHECK_THAT(notes(story), Contains("lost the rendezvous daemon"));
  story.forget();
  story.pass(2s);
  meet();
  CHECK_THAT(notes(story), Contains("again, after 2 s"));
}

TEST_CASE("messages with numbers that no daemon reaches end the session, and are not repeated") {
  agent_story story;
  story.connect();
  story.forget();
  desired lie = story.order(desired_phase::wait, 1);
  SECTION("round") {
    lie.round = count_max + 1;
  }
  SECTION("seq") {
    lie.seq = count_max + 1;
  }
  SECTION("grace") {
    lie.grace = duration::max();
  }
  story.say(lie);
  CHECK(story.did<disconnect_daemon>());
  story.connect();
  CHECK(story.sent.round_told == 0);
  CHECK(story.sent.desired_seq == 0);
}

TEST_CASE("a tail is told until it was answered, and again on the next connection") {
  agent_story story;
  story.run_as_member();
  story.daemon_acks = false;
  story.worker_fails(0, agent_story::cause_of(cause_class::exit, 3, {}, "Traceback"));
  REQUIRE(story.sent.causes.size() == 1);
  CHECK(story.sent.causes[0].tail == "Traceback");
  const std::uint64_t first = story.sent.seq;
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.causes[0].tail == "Traceback");
  story.say(ack{first - 1});
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.causes[0].tail == "Traceback");
  story.say(ack{first});
  story.pass(story.timing.heartbeat_interval);
  CHECK(story.sent.causes[0].tail.empty());
  CHECK(story.sent.causes[0].code == 3);
  SECTION("on a new connection") {
    story.lose_daemon();
    story.daemon_acks = true;
    story.connect();
    CHECK(story.sent.causes[0].tail == "Traceback");
    story.pass(story.timing.heartbeat_interval);
    CHECK(story.sent.causes[0].tail.empty());
  }
  SECTION("when another cause comes first") {
    story.worker_fails(1, agent_story::cause_of(cause_class::signal, 9, {}, "core dumped"));
    CHECK(story.sent.causes[0].tail == "core dumped");
    story.ack_status();
    story.pass(story.timing.heartbeat_interval);
    CHECK(story.sent.causes[0].tail.empty());
  }
}
