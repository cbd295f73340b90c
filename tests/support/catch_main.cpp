#define CATCH_CONFIG_MAIN
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

// Reports an event on each line while a program runs, for tests/runner.
#include <catch2/catch_reporter_teamcity.hpp>

#include <iostream>
#include <string>

namespace ddprun::tests {
namespace {

std::string skipped_for;

// Tells of tests that were skipped, and of those that could not have failed.
class vacancy_listener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override { skipped_for.clear(); }

  void testCaseEnded(const Catch::TestCaseStats& ended) override {
    const Catch::TestCaseInfo& test = ended.testInfo;
    if (!skipped_for.empty()) {
      tell("testIgnored", test.name, skipped_for);
    } else if (ended.totals.assertions.total() == 0) {
      tell("testFailed", test.name,
           std::string(test.lineInfo.file) + ":" + std::to_string(test.lineInfo.line) +
               ": the test has asserted nothing");
    }
  }

 private:
  void tell(const char* event, const std::string& name, const std::string& text) const {
    const auto* const config = dynamic_cast<const Catch::Config*>(m_config.get());
    if (config == nullptr || config->getReporterName() != "teamcity") {
      std::cerr << name << ": " << text << "\n";
      return;
    }
    std::cout << "##teamcity[" << event << " name='" << escaped(name) << "' message='"
              << escaped(text) << "']\n"
              << std::flush;
  }

  // As the reporter does it.
  static std::string escaped(std::string text) {
    for (const auto& [from, to] :
         {std::pair("|", "||"), std::pair("'", "|'"), std::pair("\n", "|n"), std::pair("[", "|["),
          std::pair("]", "|]")})
      Catch::replaceInPlace(text, from, to);
    return text;
  }
};

CATCH_REGISTER_LISTENER(vacancy_listener)

}  // namespace

void skip(std::string_view reason) {
  skipped_for = reason;
}

}  // namespace ddprun::tests
