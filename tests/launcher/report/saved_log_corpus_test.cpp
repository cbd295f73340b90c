// The output of real launchers for failed jobs, each with the right answer:
// tests/launcher/report/corpus/README.md.
#include "launcher/report/saved_log.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

using namespace ddprun::launcher;

namespace {

std::filesystem::path logs() {
  return ddprun::tests::source_tree() / "tests/launcher/report/corpus/logs";
}

// A line of answers.txt: three fields with " | " between them.
struct log_answer {
  std::string file;
  std::string first;  // what the first line begins with
  std::string below;  // what one of the others holds
};

std::vector<log_answer> log_answers() {
  constexpr std::string_view bar = " | ";
  std::ifstream table(logs() / "answers.txt");
  std::vector<log_answer> all;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t one = line.find(bar);
    const std::size_t two = line.find(bar, one + bar.size());
    REQUIRE(two != std::string::npos);
    all.push_back({line.substr(0, one), line.substr(one + bar.size(), two - one - bar.size()),
                   line.substr(two + bar.size())});
  }
  return all;
}

}  // namespace

TEST_CASE("the root cause is found in the saved logs of real launchers") {
  for (const log_answer& each : log_answers()) {
    INFO(each.file);
    std::ifstream file(logs() / (each.file + ".log"));
    REQUIRE(file);
    saved_log log;
    for (std::string line; std::getline(file, line);)
      log.add(line);
    const std::vector<std::string> said = log.explain();
    REQUIRE_FALSE(said.empty());
    std::string all;
    for (const std::string& line : said)
      all += line + "\n";
    INFO(all);
    CHECK(said.front().starts_with(each.first));
    CHECK(all.find(each.below) != std::string::npos);
    CHECK(said.size() <= 25);
  }
}

TEST_CASE("each saved log has its answer, and each answer its log") {
  std::set<std::string> answered, kept;
  for (const log_answer& each : log_answers())
    CHECK(answered.insert(each.file).second);
  for (const auto& entry : std::filesystem::directory_iterator(logs())) {
    if (entry.path().extension() == ".log") kept.insert(entry.path().stem());
  }
  CHECK(answered == kept);
  CHECK_FALSE(kept.empty());
}
