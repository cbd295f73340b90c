// The daemon's machine without connections: events in, effects out, on the test's own clock.
#include "rendezvous/core/daemon/daemon_machine.hpp"
#include "tests/support/catch.hpp"

#include <map>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

struct daemon_story {
  explicit daemon_story(core::daemon_options options = {}) : machine(std::move(options)) {}

  void step(const core::daemon_event& event) {
    core::daemon_effects effects;
    machine.step(event, now, effects);
    for (const core::daemon_effect& effect : effects) {
      if (const auto* sent = std::get_if<core::send_to_agent>(&effect)) {
        if (const auto* no = std::get_if<refused>(sent->message.get()))
          refusals[sent->connection] = no->text;
        if (const auto* no = std::get_if<not_primary>(sent->message.get()))
          sent_on[sent->connection] = no->text;
        if (const auto* wanted = std::get_if<desired>(sent->message.get()))
          orders[sent->connection] = *wanted;
      } else if (const auto* gone = std::get_if<core::disconnect_agent>(&effect)) {
        closed[gone->connection] = true;
      } else if (const auto* cut = std::get_if<core::drop_connection>(&effect)) {
        dropped[cut->connection] = true;
      } else if (const auto* limit = std::get_if<core::limit_stall>(&effect)) {
        stall_limits[limit->connection] = limit->limit;
      } else if (const auto* asked = std::get_if<core::persist_run_record>(&effect)) {
        asked->record ? void(kept[asked->run_id] = *asked->record)
                      : void(kept.erase(asked->run_id));
        last_record = asked->number;
      } else {
        notes.push_back(std::get<core::daemon_note>(effect).text);
      }
    }
  }

  void say(connection_id from, agent_message message) {
    step(core::agent_said{from, std::move(message), "10.0.0.9", "10.0.0.1", 100 + from,
                          port_has_room});
  }

  // A node joins a run of one node, or of two.
  connection_id join(const std::string& run_id, std::uint32_t nodes = 1) {
    hello greeting;
    greeting.run_id = run_id;
    greeting.session = {5, ++last};
    greeting.node = "n" + std::to_string(last);
    greeting.settings.nodes_min = greeting.settings.nodes_max = nodes;
    greeting.settings.timing = timers_for(60s);
    say(last, greeting);
    return last;
  }

  // Goes to the end, except for the goodbye.
  void succeed(connection_id who) {
    status news;
    news.instance = orders.at(who).instance;
    news.round = orders.at(who).round;
    news.phase = member_phase::preparing;
    news.service_port = news.master_port = 4000;
    news.seq = 1;
    say(who, news);
    news.seq = 2;
    news.phase = member_phase::succeeded;
    say(who, news);
  }

  void play(const std::string& run_id) {
    const connection_id who = join(run_id);
    succeed(who);
    REQUIRE(orders.at(who).phase == desired_phase::close);
    say(who, goodbye{{5, who}});
    REQUIRE(closed.contains(who));
  }

  time_point now{1000h};
  core::daemon machine;
  connection_id last = 0;
  std::map<connection_id, std::string> refusals;
  std::map<connection_id, std::string> sent_on;
  std::map<connection_id, desired> orders;
  bool port_has_room = true;
  std::map<connection_id, bool> closed, dropped;
  std::map<connection_id, duration> stall_limits;
  std::vector<std::string> notes;
  std::map<std::string, core::run_record> kept;
  std::uint64_t last_record = 0;
};

core::daemon_options keeping() {
  core::daemon_options options;
  options.persists_records = true;
  options.began = time_point(1000h);
  options.recovery_until = options.began + 10s;
  return options;
}

}  // namespace

TEST_CASE("a node that waits hears of another run that gathers here, at its next heartbeat") {
  daemon_story story;
  std::uint64_t seq = 0;
  const auto beat = [&](connection_id who) {
    status news;
    news.seq = ++seq;
    story.say(who, news);
    return story.orders.at(who).text;
  };
  const connection_id first = story.join("job04", 2);
  CHECK(beat(first) == "waiting for 1 of 2 nodes; here: n1 (1 worker)");
  const connection_id other = story.join("job05", 2);
  const std::string seen_by_other =
      "waiting for 1 of 2 nodes; here: n2 (1 worker); another run waits for nodes at this "
      "endpoint: job04 (1 node): was the same --rdzv-id meant?";
  CHECK(beat(other) == seen_by_other);
  beat(first);
  CHECK(beat(first) ==
        "waiting for 1 of 2 nodes; here: n1 (1 worker); another run waits for nodes at this "
        "endpoint: job05 (1 node): was the same --rdzv-id meant?");

  // A run that has all its nodes cannot explain which ones another run lacks.
  story.join("job05", 2);
  beat(first);
  CHECK(beat(first) == "waiting for 1 of 2 nodes; here: n1 (1 worker)");
}

TEST_CASE("a daemon makes a run for its first hello, and the others join it") {
  daemon_story story;
  const connection_id one = story.join("a", 2);
  CHECK(story.orders.at(one).phase == desired_phase::wait);
  const connection_id other = story.join("b");
  CHECK(story.orders.at(other).phase == desired_phase::prepare);
  story.join("a", 2);
  CHECK(story.orders.at(one).phase == desired_phase::prepare);
  CHECK(story.machine.run_count() == 2);
  REQUIRE(story.machine.find("a") != nullptr);
  CHECK(story.machine.find("a")->view(story.now).member_count == 2);
  CHECK(story.machine.find("c") == nullptr);
  CHECK(story.stall_limits.at(one) == 60s);

  std::vector<std::string> seen;
  story.machine.each_run(1, [&](const core::run& run) {
    seen.push_back(run.view(story.now).run_id);
    return true;
  });
  CHECK(seen == std::vector<std::string>{"b"});
}

TEST_CASE("the end of a connection is reported only to its run") {
  daemon_story story;
  const connection_id one = story.join("a", 2);
  story.join("b", 2);
  story.step(core::connection_ended{one});
  CHECK_FALSE(story.machine.find("a")->view(story.now).members.at(0).connected);
  CHECK(story.machine.find("b")->view(story.now).members.at(0).connected);
  // A connection without a hello belongs to no run.
  story.step(core::connection_ended{99});
  story.say(98, status{});
  story.say(97, goodbye{{5, 97}});
  CHECK(story.closed.empty());
}

TEST_CASE("a guardian's word is heard by its run, and its connection ends") {
  daemon_story story;
  const connection_id one = story.join("a", 2);
  story.say(50, guardian_word{"a", {5, one}});
  CHECK(story.closed.contains(50));
  CHECK(story.machine.find("a")->view(story.now).member_count == 0);
  REQUIRE_FALSE(story.notes.empty());
  CHECK(story.notes.front().find("its agent is dead") != std::string::npos);
  story.say(51, guardian_word{"unknown", {5, 1}});
  CHECK(story.closed.contains(51));
}

TEST_CASE("finished runs give way to new ones, the oldest first; others do not") {
  core::daemon_options options;
  options.runs_max = 3;
  daemon_story story(options);
  story.join("alive", 2);
  story.play("first");
  story.now += 1s;
  story.play("second");
  story.now += 1s;
  story.play("third");
  CHECK(story.machine.find("first") == nullptr);
  CHECK(story.machine.find("second") != nullptr);
  CHECK(story.machine.find("alive") != nullptr);
  // A run to which a node is connected is not forgotten, however old it is.
  const connection_id late = story.join("second");
  CHECK(story.orders.at(late).phase == desired_phase::prepare);
  story.join("fourth", 2);
  CHECK(story.machine.find("third") == nullptr);
  const connection_id refused = story.join("fifth");
  CHECK(story.refusals.at(refused) ==
        "this daemon already holds 3 runs that have not ended: start another daemon for more");
  CHECK(story.closed.contains(refused));
  CHECK(story.notes.back() == "refused run fifth: 3 runs are the maximum");
  // It no longer counts: what it sends now belongs to no run.
  story.say(refused, status{});
}

TEST_CASE("a run that is over is forgotten after an hour, once no node is connected") {
  daemon_story story;
  const connection_id who = story.join("a");
  story.succeed(who);
  REQUIRE(story.orders.at(who).phase == desired_phase::close);
  story.step(core::connection_ended{who});
  const connection_id stays = story.join("b");
  story.succeed(stays);
  story.now += 61min;
  status still_here;
  still_here.seq = 3;
  story.say(stays, still_here);
  story.step(core::time_passed{});
  CHECK(story.machine.find("a") == nullptr);
  CHECK(story.machine.find("b") != nullptr);
}

TEST_CASE("the window of recovery moves with a loop that stood still, for runs to come, too") {
  core::daemon_options options;
  daemon_story story(options);
  options.recovery_until = story.now + 10s;
  story.machine = core::daemon(options);
  const connection_id one = story.join("a");
  CHECK(story.orders.at(one).phase == desired_phase::wait);
  CHECK(story.machine.next_deadline() == story.now + 10s);
  story.now += 8s;
  story.step(core::loop_was_late{8s});
  const connection_id other = story.join("b");
  CHECK(story.orders.at(other).phase == desired_phase::wait);
  story.now += 3s;
  story.step(core::time_passed{});
  CHECK(story.orders.at(one).phase == desired_phase::wait);
  story.now += 7s;
  story.step(core::time_passed{});
  CHECK(story.orders.at(one).phase == desired_phase::prepare);
  CHECK(story.orders.at(other).phase == desired_phase::prepare);
}

TEST_CASE("an operator ends one run by its name") {
  daemon_story story;
  const connection_id one = story.join("a", 2);
  const connection_id other = story.join("b", 2);
  story.step(core::run_stop_requested{"a", "stopped by a person"});
  story.step(core::run_stop_requested{"unknown", "stopped by a person"});
  CHECK(story.orders.at(one).phase == desired_phase::close);
  CHECK(story.orders.at(other).phase == desired_phase::wait);
}

TEST_CASE("what anybody may cause does not fill the log") {
  core::daemon_options options;
  options.runs_max = 1;
  daemon_story story(options);
  story.join("a", 2);
  for (int count = 0; count < 1000; ++count)
    story.join("b");
  CHECK(story.notes.size() < 50);
}

TEST_CASE("where there is no room, a new agent is refused, and one at work comes again") {
  core::daemon_options options;
  options.agents_max = 2;
  daemon_story story(options);
  const connection_id one = story.join("a", 3);
  const auto come = [&](session_id session, instance_id instance) {
    hello greeting;
    greeting.run_id = "a";
    greeting.session = session;
    greeting.node = "n" + std::to_string(session.low);
    greeting.settings = story.machine.find("a")->view(story.now).settings.value_or(run_settings());
    greeting.settings.nodes_min = greeting.settings.nodes_max = 3;
    greeting.settings.timing = timers_for(60s);
    greeting.state.instance = instance;
    story.say(++story.last, greeting);
    return story.last;
  };
  SECTION("the daemon's own limit") {
    come({5, 50}, 0);
  }
  SECTION("the port's") {
    story.port_has_room = false;
  }
  const std::size_t before = story.machine.agent_count();
  const connection_id fresh = come({5, 60}, 0);
  CHECK(story.refusals.at(fresh).find("raise its limit of open files") != std::string::npos);
  CHECK(story.closed.contains(fresh));
  // A refusal would end its workers.
  const connection_id working = come({5, 61}, 77);
  CHECK(story.dropped.contains(working));
  CHECK_FALSE(story.refusals.contains(working));
  // Its old connection may not be known yet to be gone.
  const connection_id again = come({5, one}, 0);
  CHECK_FALSE(story.refusals.contains(again));
  CHECK(story.closed.contains(one));
  CHECK(story.machine.agent_count() == before);
}

TEST_CASE("an agent that has obeyed a newer daemon is sent on, and changes nothing else") {
  core::daemon_options options;
  options.epoch = 2;
  daemon_story story(options);
  const connection_id first = story.join("a", 2);
  hello greeting;
  greeting.run_id = "a";
  greeting.session = {9, 9};
  greeting.node = "late";
  greeting.settings.nodes_min = greeting.settings.nodes_max = 2;
  greeting.settings.timing = timers_for(60s);
  greeting.state.epoch = 3;
  story.say(77, greeting);
  CHECK(story.sent_on.at(77) ==
        "late has already been served by a newer daemon (epoch 3) than this one (epoch 2)");
  CHECK(story.closed.contains(77));
  CHECK_FALSE(story.refusals.contains(77));
  CHECK_FALSE(story.closed.contains(first));
  CHECK(story.machine.agent_count() == 1);
  greeting.state.epoch = 2;
  story.say(78, greeting);
  CHECK(story.machine.agent_count() == 2);
  CHECK_FALSE(story.sent_on.contains(78));
}

TEST_CASE("each run waits for its own record, and is told when that is kept") {
  daemon_story story(keeping());
  const connection_id a = story.join("a");
  const std::uint64_t first = story.last_record;
  const connection_id b = story.join("b");
  const std::uint64_t second = story.last_record;
  REQUIRE(second > first);
  CHECK(story.kept.size() == 2);
  status news;
  news.phase = member_phase::preparing;
  news.service_port = news.master_port = 4000;
  news.seq = news.round = 1;
  for (const connection_id who : {a, b}) {
    news.instance = story.orders.at(who).instance;
    story.say(who, news);
  }
  CHECK(story.orders.at(a).phase == desired_phase::prepare);
  story.step(core::records_persisted{first});
  CHECK(story.orders.at(a).phase == desired_phase::run);
  CHECK(story.orders.at(b).phase == desired_phase::prepare);
  story.step(core::records_persisted{second});
  CHECK(story.orders.at(b).phase == desired_phase::run);
}

TEST_CASE("the recovery window is only for the runs that were open") {
  core::daemon_options options = keeping();
  core::run_record open;
  open.run_id = "on";
  open.instance = 7;
  open.rounds_reserved = 16;
  open.nodes = 1;
  open.members = shared_list<std::string>({"n3"});  // the third to join
  open.gone_after = open.lost_after = 600s;
  core::run_record over = open;
  over.run_id = "over";
  over.nodes = 0;
  over.end = core::run_end{0, "done"};
  options.remembered = {open, over};
  daemon_story story(options);
  CHECK(story.machine.run_count() == 2);
  CHECK(story.orders.at(story.join("new")).phase == desired_phase::prepare);
  CHECK(story.orders.at(story.join("over")).phase == desired_phase::prepare);
  const connection_id on = story.join("on");
  CHECK(story.orders.at(on).phase == desired_phase::wait);
  story.now += 10s;
  story.step(core::time_passed{});
  CHECK(story.orders.at(on).phase == desired_phase::prepare);
  CHECK(story.orders.at(on).instance == 7);
  CHECK(story.orders.at(on).round == 17);
}

TEST_CASE("a run that is forgotten is forgotten in the journal, too") {
  daemon_story story(keeping());
  const connection_id who = story.join("a");
  story.step(core::records_persisted{story.last_record});
  story.succeed(who);
  story.step(core::records_persisted{story.last_record});
  REQUIRE(story.orders.at(who).phase == desired_phase::close);
  REQUIRE(story.kept.at("a").end);
  story.say(who, goodbye{{5, who}});
  story.now += 59min;
  story.step(core::time_passed{});
  CHECK(story.kept.size() == 1);
  story.now += 2min;
  story.step(core::time_passed{});
  CHECK(story.kept.empty());
  CHECK(story.machine.run_count() == 0);
}
