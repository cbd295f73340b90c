// A daemon is lost: whether the next one may live here, and what people are told at once.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

namespace {

bool last_try_may_host(const agent_story& story) {
  const auto tries = story.all<connect_daemon>();
  REQUIRE_FALSE(tries.empty());
  return tries.back().may_host;
}

std::string last_note(const agent_story& story) {
  const auto notes = story.all<agent_note>();
  return notes.empty() ? "" : notes.back().text;
}

hello last_hello(const agent_story& story) {
  hello found;
  for (const send_to_daemon& each : story.all<send_to_daemon>()) {
    if (const auto* const one = std::get_if<hello>(&each.message)) found = *one;
  }
  return found;
}

}  // namespace

TEST_CASE("where no daemon was found yet, each further try may open one") {
  agent_story story;
  CHECK_FALSE(last_try_may_host(story));  // the agent had looked for it before it started
  story.lose_daemon();
  CHECK(last_try_may_host(story));
}

TEST_CASE("the process that hosted a lost daemon has reconnect_grace to start it again") {
  agent_story story;
  story.run_as_member();
  story.lose_daemon();
  CHECK_FALSE(last_try_may_host(story));
  story.pass(story.timing.reconnect_grace / 2);
  story.lose_daemon();
  CHECK_FALSE(last_try_may_host(story));
  story.pass(story.timing.reconnect_grace / 2);
  story.lose_daemon();
  CHECK(last_try_may_host(story));
  // When the next one is lost, that time starts again.
  story.connect();
  story.lose_daemon();
  CHECK_FALSE(last_try_may_host(story));
}

TEST_CASE("a node that leaves opens no daemon that would leave with it") {
  agent_story story;
  story.run_as_member();
  story.tell(signal_received{SIGTERM});
  story.lose_daemon();
  story.pass(story.timing.reconnect_grace);
  story.lose_daemon();
  CHECK_FALSE(last_try_may_host(story));
}

TEST_CASE("the hello says whether the daemon lives here, as it is by then") {
  agent_story story;
  story.tell(daemon_connected{"10.0.0.2", false});
  CHECK_FALSE(last_hello(story).hosts_daemon);
  story.lose_daemon();
  story.tell(daemon_connected{"127.0.0.1", true});
  CHECK(last_hello(story).hosts_daemon);
}

TEST_CASE("a node that loses the daemon says at once how long it waits, and what follows") {
  agent_story story;
  story.run_as_member();
  story.lose_daemon("End of file");
  CHECK(last_note(story) ==
        "lost the rendezvous daemon at 10.0.0.100:29400 (End of file): the workers run on, and "
        "this node waits for a daemon to answer there again, 9 min at most; then they are ended");
  CHECK(story.machine()
            .why(story.now() + 2min)
            .ends_with("no rendezvous daemon at 10.0.0.100:29400 for 2 min (End of file); the "
                       "workers run on for 7 "
                       "min at most"));
  core::agent_options options = agent_story::default_options();
  options.may_host = true;
  agent_story host(options);
  host.run_as_member();
  host.lose_daemon("End of file");
  CHECK(last_note(host).ends_with(
      ", 9 min at most; then they are ended; if none has come in 2 s (reconnect_grace), this "
      "agent starts one, because it runs on that host"));
  agent_story leaves(options);
  leaves.run_as_member();
  leaves.tell(signal_received{SIGTERM});
  leaves.lose_daemon("End of file");
  CHECK(last_note(leaves).find("starts one") == std::string::npos);
  agent_story idle;
  idle.connect();
  idle.lose_daemon("End of file");
  CHECK(last_note(idle) ==
        "lost the rendezvous daemon at 10.0.0.100:29400 (End of file): this node waits for a "
        "daemon to answer there again, 10 min at most");
}
