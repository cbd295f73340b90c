// What a node says about a daemon that is another version of ddprun.
#include "tests/support/agent_story.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::core;
using ddprun::tests::agent_story;

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
