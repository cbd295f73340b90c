#include "launcher/cli/help.hpp"

#include "launcher/cli/option_table.hpp"
#include "rendezvous/core/messages/settings_table.hpp"
#include "tests/support/catch.hpp"

#include <sstream>

TEST_CASE("the help names every option that works") {
  const std::string text(ddprun::launcher::help_text());
  for (const ddprun::cli::option_spec* option : ddprun::launcher::launcher_command().options) {
    INFO(option->name);
    ddprun::launcher::options_draft draft;
    const ddprun::cli::checked wrong = ddprun::launcher::apply_option(draft, {option, "?", "--it"});
    const bool works = !wrong || wrong->text.find("not supported") == std::string::npos;
    if (works && option->help.empty()) continue;  // another name of one that is named
    CHECK((text.find("--" + std::string(option->name)) != std::string::npos) == works);
  }
}

TEST_CASE("the help has the words and the defaults of settings") {
  const std::string text(ddprun::launcher::help_text());
  CHECK(text.find(
            "\n  --nnodes=N | MIN:MAX         number of nodes; MIN:MAX: starts with MIN, grows to "
            "MAX (1)\n") != std::string::npos);
  CHECK(
      text.find("\n  --max-node-losses=N          how many nodes may be lost within an hour before "
                "the run ends (10)\n") != std::string::npos);
  ddprun::for_each_setting([](const auto& row) {
    if constexpr (requires { row.typed; }) {
      std::string words;
      for (int word = 0; word <= static_cast<int>(row.last); ++word) {
        if (word != 0) words += " | ";
        words += to_string(static_cast<decltype(row.last)>(word));
      }
      CHECK(words == row.typed);
    }
  });
}

TEST_CASE("the help names every timer with its default") {
  const std::string text(ddprun::launcher::help_text());
  CHECK(text.find("  kill_wait=5  ") != std::string::npos);
  for (const ddprun::timer_row& row : ddprun::timer_table) {
    INFO(row.name);
    CHECK(text.find("\n  " + std::string(row.name) + "=") != std::string::npos);
    CHECK_FALSE(row.help.empty());
  }
}

TEST_CASE("the help fits 100 columns") {
  std::istringstream lines{std::string(ddprun::launcher::help_text())};
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("the version is one line") {
  CHECK(ddprun::launcher::version_text().starts_with("ddprun "));
}
