// The last output of real programs, each with the right answer:
// tests/launcher/report/corpus/README.
#include "launcher/report/failure_text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/source_tree.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

std::filesystem::path corpus() {
  return ddprun::tests::source_tree() / "tests/launcher/report/corpus";
}

// A line of answers.txt: five fields with bars between them.
struct right_answer {
  std::string file;
  cause end;
  bool is_secondary = false;
  std::string error;      // what it begins with; empty: none is to be named
  std::string signature;  // empty: none
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  const std::string rest = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  return rest == "-" ? "" : rest;
}

std::vector<right_answer> answers() {
  std::ifstream table(corpus() / "answers.txt");
  std::vector<right_answer> all;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream parts(line);
    std::string file, end, kind, error, signature;
    for (std::string* const field : {&file, &end, &kind, &error, &signature})
      std::getline(parts, *field, '|');
    right_answer one;
    one.file = trimmed(file);
    std::string how;
    std::istringstream(end) >> how >> one.end.code;
    one.end.kind = how == "signal" ? cause_class::signal : cause_class::exit;
    REQUIRE((trimmed(kind) == "cause" || trimmed(kind) == "secondary"));
    one.is_secondary = trimmed(kind) == "secondary";
    one.error = trimmed(error);
    one.signature = trimmed(signature);
    all.push_back(std::move(one));
  }
  return all;
}

// The tail as the launcher keeps it.
std::string tail_of(const std::string& file) {
  std::ifstream stream(corpus() / (file + ".txt"), std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return text.substr(text.size() - std::min(text.size(), tail_bytes_max));
}

}  // namespace

TEST_CASE("what real programs printed last is read as what it is") {
  for (right_answer& each : answers()) {
    INFO(each.file);
    each.end.tail = tail_of(each.file);
    REQUIRE_FALSE(each.end.tail.empty());
    const failure_text words = read_failure(each.end);
    CHECK(words.is_secondary == each.is_secondary);
    INFO("read: " << words.error);
    CHECK(words.error.starts_with(each.error));
    CHECK(words.error.empty() == each.error.empty());
    CHECK((words.known != nullptr ? words.known->name : "") == each.signature);
  }
}

TEST_CASE("each text of the corpus has its answer, and each answer its text") {
  std::set<std::string> answered, kept;
  for (const right_answer& each : answers())
    CHECK(answered.insert(each.file).second);
  for (const auto& entry : std::filesystem::directory_iterator(corpus())) {
    const std::string name = entry.path().stem();
    if (entry.path().extension() == ".txt" && name != "answers") kept.insert(name);
  }
  CHECK(answered == kept);
  CHECK(kept.size() >= 40);
}
