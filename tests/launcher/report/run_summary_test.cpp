#include "launcher/report/run_summary.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

const std::string members = "ranks 0-1 on a (10.0.0.1), 2-3 on b (10.0.0.2)";

round_report failed_round(round_number round) {
  round_report report;
  report.round = round;
  report.lasted = 8200ms;
  report.root_cause.emplace();
  report.root_cause->node = "b";
  report.root_cause->rank = 2;
  report.root_cause->local_rank = 0;
  report.root_cause->code = 7;
  report.text = "restart 1 of 3";
  return report;
}

round_report succeeded(round_number round) {
  round_report report;
  report.round = round;
  report.lasted = 90s;
  report.text = "every worker succeeded";
  report.is_last = true;
  return report;
}

}  // namespace

TEST_CASE("the summary of a run has a line for each round") {
  run_summary told;
  told.add(failed_round(1), members);
  told.add(succeeded(2), members);
  REQUIRE(told.is_worth_telling());
  CHECK(told.text() == "this node was in 2 rounds, 1 of which failed:\n  | round 1, 8.2 s, " +
                           members +
                           ": b: rank 2 (local rank 0) exited with code 7\n  | round 2, 90 s, on "
                           "the same nodes: every worker succeeded");
}

TEST_CASE("a cause that comes again is told once") {
  run_summary told;
  told.add(failed_round(1), members);
  told.add(failed_round(2), members);
  CHECK(told.text().ends_with("\n  | round 2, 8.2 s, on the same nodes: the same"));
}

TEST_CASE("nothing is summed up where nothing has failed, or there was one round") {
  run_summary told;
  told.add(failed_round(1), members);
  CHECK_FALSE(told.is_worth_telling());
  run_summary well;
  round_report joined = succeeded(1);
  joined.is_last = false;
  well.add(joined, members);
  well.add(succeeded(2), members);
  CHECK_FALSE(well.is_worth_telling());
}

TEST_CASE("of many rounds the first and the last are told, and none is too long") {
  run_summary told;
  for (round_number round = 1; round <= 100; ++round) {
    round_report report = failed_round(round);
    report.root_cause->text = std::string(1024, 'x');
    told.add(report, std::string(256, 'm') + std::to_string(round));
  }
  const std::string text = told.text();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  CHECK(lines == run_summary::first_max + 1 + run_summary::last_max);
  CHECK(text.find("\n  | round 5, ") != std::string::npos);
  CHECK(text.find("\n  | ... 85 more rounds\n  | round 91, ") != std::string::npos);
  CHECK(text.size() < 16 * 600);
}
