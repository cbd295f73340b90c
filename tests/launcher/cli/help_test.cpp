#include "launcher/cli/help.hpp"

#include "launcher/cli/option_table.hpp"
#include "rendezvous/core/messages/settings_table.hpp"
#include "tests/support/catch.hpp"

#include <sstream>

TEST_CASE("the help names every option that works") {
  const std::string text(ddprun::help_text());
  for (const ddprun::option_spec& option : ddprun::option_table()) {
    INFO(option.name);
    const bool named = text.find("--" + std::string(option.name)) != std::string::npos;
    CHECK(named == option.unsupported.empty());
  }
}

TEST_CASE("the help names every timer with its default") {
  const std::string text(ddprun::help_text());
  CHECK(text.find("  kill_wait=5  ") != std::string::npos);
  for (const ddprun::timer_row& row : ddprun::timer_table) {
    INFO(row.name);
    CHECK(text.find("\n  " + std::string(row.name) + "=") != std::string::npos);
    CHECK_FALSE(row.help.empty());
  }
}

TEST_CASE("the help fits 100 columns") {
  std::istringstream lines{std::string(ddprun::help_text())};
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("the version is one line") {
  CHECK(ddprun::version_text().starts_with("ddprun "));
}
