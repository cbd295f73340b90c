#include "launcher/report/report_json.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/full_messages.hpp"
#include "tests/support/source_tree.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>

using namespace ddprun;
using namespace ddprun::launcher;
using nlohmann::json;

namespace {

json written(const round_report& report) {
  const std::string line =
      report_json(report, {"job7", "node-a", "/logs/1", "rank 3 stood in f", ""});
  REQUIRE(line.ends_with("}\n"));
  REQUIRE(line.find('\n') + 1 == line.size());
  return json::parse(line);
}

round_report with_exception() {
  round_report report = tests::full_report();
  report.root_cause->kind = cause_class::exit;
  report.root_cause->was_failing = false;
  report.is_last = false;
  report.root_cause->tail =
      "Traceback (most recent call last):\n  File \"train.py\", line 8, in step\n    f()\n"
      "OSError: [Errno 28] No space left on device\n";
  return report;
}

}  // namespace

TEST_CASE("a report is one line of JSON with all that is known") {
  const json found = written(with_exception());
  CHECK(found["run_id"] == "job7");
  CHECK(found["reported_by"] == "node-a");
  CHECK(found["outcome"] == "failed");
  CHECK(found["ends"][0] == json({{"how", "lost"}, {"first_rank", 0}, {"last_rank", 3}}));
  const json& first = found["root_cause"];
  CHECK(first["error"] == "OSError: [Errno 28] No space left on device");
  CHECK(first["frames"][0]["place"] == "train.py:8 in step");
  CHECK(first["signature"] == "disk-full");
  CHECK(first["output"] == "/logs/1");
  CHECK(found["stood"] == "rank 3 stood in f");
  CHECK_FALSE(found.contains("evidence"));
  CHECK_FALSE(found.contains("exit_code"));
}

TEST_CASE("the outcome tells failures from ends that were asked for") {
  round_report report = tests::full_report();
  report.root_cause->was_failing = false;
  report.root_cause->kind = cause_class::operator_stop;
  report.is_last = true;
  CHECK(written(report)["outcome"] == "stopped");
  CHECK(written(report)["exit_code"] == 137);
  report.is_last = false;
  CHECK(written(report)["outcome"] == "changed");
  report.root_cause.reset();
  report.is_last = true;
  report.exit_code = 0;
  CHECK(written(report)["outcome"] == "succeeded");
}

TEST_CASE("each name of a report stands in PROTOCOL.md") {
  std::ifstream file(tests::source_tree() / "rendezvous/PROTOCOL.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::string part = text.substr(text.find("## Reports"));
  round_report last = with_exception();
  last.is_last = true;
  for (const json& report : {written(with_exception()), written(last)}) {
    for (const auto& [name, value] : report.items()) {
      INFO(name);
      CHECK(part.find("`" + name + "`") != std::string::npos);
    }
    for (const auto& [name, value] : report["root_cause"].items()) {
      INFO(name);
      CHECK(part.find("`." + name + "`") != std::string::npos);
    }
  }
}
