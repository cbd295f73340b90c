// PROTOCOL.md and the code have the same fields, and the same version of the agent protocol.
#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/full_messages.hpp"
#include "tests/support/source_tree.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ddprun::tests {
namespace {

// The page's part about the agent protocol.
std::vector<std::string> lines_of_the_page() {
  std::ifstream file(source_tree() / "rendezvous/PROTOCOL.md");
  REQUIRE(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line) && line != "## TCPStore";)
    lines.push_back(line);
  return lines;
}

// The names of all fields in its tables.
std::set<std::string> names_on_the_page() {
  std::set<std::string> names;
  std::size_t column = 0;  // of the field's name
  for (const std::string& line : lines_of_the_page()) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell);
    if (cells.size() < 3 || !cells[0].empty()) column = 0;
    for (std::size_t index = 0; index < cells.size(); ++index) {
      if (cells[index] == " field ") column = index;
    }
    if (column == 0 || column >= cells.size()) continue;
    std::istringstream words(cells[column]);
    std::string between;
    for (bool is_name = false; std::getline(words, between, '`'); is_name = !is_name) {
      if (is_name) names.insert(between);
    }
  }
  return names;
}

void collect(const nlohmann::json& value, std::set<std::string>& names) {
  if (value.is_array()) {
    for (const nlohmann::json& item : value)
      collect(item, names);
  }
  if (!value.is_object()) return;
  for (const auto& [name, inner] : value.items()) {
    if (name != "type") names.insert(name);
    collect(inner, names);
  }
}

std::set<std::string> names_in_the_code() {
  std::set<std::string> names;
  status told_more = tests::full_status();
  told_more.round_told = told_more.round + 1;
  for (const agent_message& message :
       {agent_message(tests::full_hello()), agent_message(told_more),
        agent_message(goodbye{tests::someone}),
        agent_message(guardian_word{"digits", tests::someone, 5, 7, 1, "node-a", 2, 2}),
        agent_message(tether_hello{7, 3, tests::someone, 2, 5}),
        agent_message(tether_beat{12, true})}) {
    collect(nlohmann::json::parse(protocol::encode(message)), names);
  }
  for (const daemon_message& message :
       {daemon_message(welcome{3, "0.1.0", timers_for(std::chrono::seconds(3))}),
        daemon_message(ack{5}), daemon_message(tests::full_desired()),
        daemon_message(refused{refused_exit_code, "no"}),
        daemon_message(not_primary{"another one is"}), daemon_message(tests::full_report())}) {
    collect(nlohmann::json::parse(protocol::encode(message)), names);
  }
  return names;
}

}  // namespace

TEST_CASE("PROTOCOL.md has a row for each field, and no other") {
  CHECK(names_on_the_page() == names_in_the_code());
}

TEST_CASE("PROTOCOL.md names the version of the agent protocol, in its heading and in its row") {
  const std::string version = std::to_string(agent_protocol_version);
  const std::vector<std::string> lines = lines_of_the_page();
  const std::string heading = "## Agent protocol, version " + version;
  CHECK(std::count(lines.begin(), lines.end(), heading) == 1);
  const std::string row = "| `protocol` | required | " + version + ". ";
  CHECK(std::count_if(lines.begin(), lines.end(),
                      [&](const std::string& line) { return line.starts_with(row); }) == 1);
}

}  // namespace ddprun::tests
