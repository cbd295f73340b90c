#include "launcher/report/run_events.hpp"

#include "tests/support/catch.hpp"

#include <nlohmann/json.hpp>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

std::string kinds(const std::vector<run_event>& events) {
  std::string text;
  for (const run_event& event : events)
    text += (text.empty() ? "" : " ") + std::string(to_string(event.kind));
  return text;
}

round_report failure_of(round_number round) {
  round_report report;
  report.round = round;
  report.restarts_used = 1;
  report.root_cause.emplace();
  report.root_cause->node = "b";
  report.root_cause->rank = 1;
  return report;
}

}  // namespace

TEST_CASE("a run's events, from its start over a failure to its end") {
  run_events events(3);
  assignment assigned;
  events.enter(1, assigned, "ranks 0-1 on a", 0);
  CHECK(kinds(events.started(1)) == "round_started");
  CHECK(kinds(events.over(failure_of(1), "")) == "round_failed");
  events.enter(2, assigned, "ranks 0-1 on a", 1);
  CHECK(kinds(events.started(1)).empty());  // of a round that is over
  CHECK(kinds(events.started(2)) == "round_started recovered");
  round_report well;
  well.round = 2;
  CHECK(events.over(well, "").empty());
  CHECK(kinds(events.left(0, "every worker succeeded")) == "ended");
}

TEST_CASE("what recovers is the first round that runs, and only after a failure") {
  run_events events(3);
  events.enter(1, {}, "", 0);
  events.started(1);
  events.over(failure_of(1), "");
  events.enter(2, {}, "", 1);  // its workers cannot be started
  events.over(failure_of(2), "");
  events.enter(3, {}, "", 2);
  CHECK(kinds(events.started(3)) == "round_started recovered");
  round_report changed;  // a node has joined
  changed.round = 3;
  events.over(changed, "");
  events.enter(4, {}, "", 2);
  CHECK(kinds(events.started(4)) == "round_started");
}

TEST_CASE("a hang is told once, and that it is over, in its round") {
  run_events events(3);
  events.enter(1, {}, "ranks 0-1 on a", 0);
  events.started(1);
  CHECK(events.hangs(std::nullopt).empty());
  const auto told = events.hangs(hung_rank{1, "rank 1 hangs: because"});
  CHECK(kinds(told) == "hang");
  CHECK(events.hangs(hung_rank{1, "rank 1 hangs, as the other nodes say, too"}).empty());
  CHECK(kinds(events.hangs(std::nullopt)) == "hang_over");
  CHECK(events.hangs(std::nullopt).empty());
  CHECK(event_json(told[0], "job1", "a") ==
        R"({"event":"hang","run_id":"job1","node":"a","leads":true,"round":1,"restarts_used":0,)"
        R"("restarts_max":3,"members":"ranks 0-1 on a","rank":1,"text":"rank 1 hangs: because"})"
        "\n");
  CHECK(kinds(events.hangs(hung_rank{0, "rank 0 hangs"})) == "hang");
  events.enter(2, {}, "ranks 0-1 on a", 1);
  CHECK(events.hangs(std::nullopt).empty());  // that was in the round before
  CHECK(kinds(events.hangs(hung_rank{0, "rank 0 hangs"})) == "hang");
}

TEST_CASE("a node that was turned away has no end of the run to tell") {
  run_events events(3);
  CHECK(events.left(refused_exit_code, "run job1 is full").empty());
  CHECK(kinds(events.left(1, "nobody came")) == "ended");
  events.enter(1, {}, "", 0);
  CHECK(kinds(events.left(refused_exit_code, "")) == "ended");
}

TEST_CASE("an event is an object, and a failure has its report in it") {
  run_events events(3);
  assignment assigned;
  assigned.group_rank = 1;
  assigned.group_world_size = 2;
  events.enter(1, assigned, "ranks 0 on a, 1 on b", 0);
  const std::string started = event_json(events.started(1)[0], "job1", "b");
  CHECK(started == R"({"event":"round_started","run_id":"job1","node":"b","leads":false,"round":1,)"
                   R"("restarts_used":0,"restarts_max":3,"members":"ranks 0 on a, 1 on b"})"
                   "\n");
  const auto failed =
      nlohmann::json::parse(event_json(events.over(failure_of(1), "/logs/1")[0], "job1", "b"));
  CHECK(failed["restarts_used"] == 1);
  CHECK(failed["report"]["outcome"] == "failed");
  CHECK(failed["report"]["root_cause"]["output"] == "/logs/1");
  const auto ended = nlohmann::json::parse(event_json(events.left(7, "why")[0], "job1", "b"));
  CHECK(ended["exit_code"] == 7);
  CHECK(ended["text"] == "why");
  CHECK_FALSE(ended.contains("report"));
}
