// The session with the daemon, without an agent; and what is said of a daemon that is another
// version of ddprun.
#include "rendezvous/core/agent/daemon_link.hpp"

#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::daemon_link;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

daemon_link linked() {
  daemon_link link;
  link.start(machine_origin);
  link.connected("10.0.0.2", machine_origin);
  link.welcomed();
  return link;
}

}  // namespace

TEST_CASE("an answer renews the lease from when the newest status that it covers was sent") {
  daemon_link link = linked();
  const std::uint64_t first = link.send_status(origin + 1s);
  const std::uint64_t second = link.send_status(origin + 2s);
  link.send_status(origin + 3s);
  CHECK(link.acked(second) == origin + 2s);
  CHECK_FALSE(link.acked(first));   // no status that old waits for an ack any more
  CHECK_FALSE(link.acked(second));  // nor is one counted twice
}

TEST_CASE("an answer to what was never sent, or on another connection, renews no lease") {
  daemon_link link = linked();
  const std::uint64_t seq = link.send_status(origin);
  SECTION("never sent") {
    CHECK_FALSE(link.acked(seq + 1));
  }
  SECTION("sent before") {
    link.ended(machine_origin, 1s);
    link.connected("10.0.0.2", machine_origin);
    CHECK_FALSE(link.acked(seq));
    CHECK(link.send_status(origin) == seq + 1);
  }
}

TEST_CASE("the statuses that wait for an answer are bounded") {
  daemon_link link = linked();
  std::uint64_t seq = 0;
  for (std::size_t i = 0; i < 2 * core::unacked_statuses_max; ++i)
    seq = link.send_status(origin + i * 1s);
  CHECK(link.acked(seq) == origin + (core::unacked_statuses_max - 1) * 1s);
}

TEST_CASE("the start of the lease never falls back") {
  daemon_link link;
  CHECK_FALSE(link.leased_from());
  link.renew_lease(origin + 2s);
  link.renew_lease(origin + 1s);
  CHECK(link.leased_from() == origin + 2s);
}

TEST_CASE("tries are doubled up to half of the grace or a second, and begin anew once confirmed") {
  daemon_link link;
  link.start(machine_origin);
  CHECK_FALSE(link.has_tried());
  CHECK(link.ended(machine_origin, 4s) == 500ms);
  CHECK(link.ended(machine_origin, 4s) == 1s);
  CHECK(link.ended(machine_origin, 4s) == 1s);
  CHECK(link.has_tried());
  link.connected("10.0.0.2", machine_origin);
  link.welcomed();
  CHECK(link.has_tried());
  CHECK(link.ended(machine_origin, 4s) == 1s);  // a welcome alone is no session
  link.connected("10.0.0.2", machine_origin);
  link.welcomed();
  link.confirmed();
  CHECK_FALSE(link.has_tried());
  CHECK(link.ended(machine_origin, 400ms) == 50ms);
  for (int i = 0; i < 40; ++i)
    link.ended(machine_origin, 400ms);
  CHECK(link.ended(machine_origin, 400ms) == 200ms);
}

TEST_CASE("time apart counts from the end of the last confirmed session, not from a failed try") {
  daemon_link link;
  link.start(machine_origin);
  link.ended(machine_origin + 5s, 1s);
  CHECK(link.apart_since() == machine_origin);
  link.connected("10.0.0.2", machine_origin + 6s);
  link.ended(machine_origin + 7s, 1s);  // no welcome: no session
  CHECK(link.apart_since() == machine_origin);
  CHECK_FALSE(link.was_in_session());
  link.connected("10.0.0.2", machine_origin + 7s);
  link.welcomed();
  CHECK_FALSE(link.is_confirmed());
  link.ended(machine_origin + 8s, 1s);  // nothing came after the welcome
  CHECK(link.apart_since() == machine_origin);
  CHECK(link.was_in_session());
  CHECK_FALSE(link.was_confirmed());
  link.connected("10.0.0.2", machine_origin + 8s);
  link.welcomed();
  link.confirmed();
  link.is_idle(machine_origin + 9s);  // means nothing in a confirmed session
  CHECK(link.apart_since() == machine_origin);
  link.ended(machine_origin + 10s, 1s);
  CHECK(link.apart_since() == machine_origin + 10s);
  CHECK(link.was_confirmed());
  CHECK_FALSE(link.is_confirmed());
  link.is_idle(machine_origin + 12s);
  CHECK(link.apart_since() == machine_origin + 12s);
}

TEST_CASE("a status is due in a session alone, silence is counted on any connection") {
  daemon_link link;
  CHECK_FALSE(link.silence_deadline(4s));
  CHECK_FALSE(link.status_due(1s));
  link.connected("10.0.0.2", machine_origin);
  link.send_status(origin);
  CHECK(link.silence_deadline(4s) == machine_origin + 4s);
  CHECK_FALSE(link.status_due(1s));
  link.welcomed();
  link.heard(machine_origin + 2s);
  CHECK(link.silence_deadline(4s) == machine_origin + 6s);
  CHECK(link.status_due(1s) == origin + 1s);
  link.hung_up();
  CHECK_FALSE(link.silence_deadline(4s));
  CHECK_FALSE(link.status_due(1s));
}

namespace {

std::vector<std::string> warnings(agent_story& story) {
  std::vector<std::string> texts;
  for (const agent_note& one : story.all<agent_note>()) {
    if (one.level == note_level::warning && one.text.find("ddprun") != std::string::npos)
      texts.push_back(one.text);
  }
  story.forget();
  return texts;
}

void welcome_by(agent_story& story, const std::string& version) {
  story.tell(daemon_connected{"10.0.0.2"});
  welcome words;
  words.version = version;
  story.say(words);
}

}  // namespace

TEST_CASE("a daemon of another version is named once, and obeyed") {
  agent_options options = agent_story::default_options();
  options.greeting.version = "0.1.0";
  agent_story story(options);
  welcome_by(story, "9.0");
  CHECK(warnings(story) ==
        std::vector<std::string>{
            "this node is ddprun 0.1.0, the rendezvous daemon ddprun 9.0: they work together, as "
            "both speak version 4 of the agent protocol; still, use the same version of ddprun on "
            "every node"});
  story.want(desired_phase::wait, 0);
  CHECK(story.sent.instance == agent_story::instance);
  SECTION("also after a lost connection") {
    story.lose_daemon();
    story.forget();
    welcome_by(story, "9.0");
    CHECK(warnings(story).empty());
  }
  SECTION("one that has taken its place is another") {
    story.lose_daemon();
    story.forget();
    welcome_by(story, "9.1");
    CHECK(warnings(story).size() == 1);
  }
}

TEST_CASE("a daemon of the same version, or of none that it says, is no news") {
  agent_options options = agent_story::default_options();
  options.greeting.version = "0.1.0";
  agent_story story(options);
  welcome_by(story, GENERATE("0.1.0", ""));
  CHECK(warnings(story).empty());
}
