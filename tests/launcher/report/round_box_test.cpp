#include "launcher/report/round_box.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <csignal>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

round_report failed() {
  round_report report;
  report.round = 2;
  report.world_size = 8;
  report.group_world_size = 2;
  report.lasted = 8200ms;
  cause why;
  why.node = "b";
  why.rank = 2;
  why.local_rank = 0;
  why.process = 4711;
  why.code = 1;
  why.text = "ValueError: loss is NaN";
  why.tail =
      "Traceback (most recent call last):\n  File \"train.py\", line 8, in step\n"
      "    raise ValueError(\"loss is NaN\")\nValueError: loss is NaN\n";
  report.root_cause = why;
  report.ends = {{ending::failed, 2, 2, end_times{8100ms, 8100ms}, 1},
                 {ending::secondary, 0, 1, end_times{8200ms, 9400ms}, -6},
                 {ending::stopped, 3, 6, end_times{8300ms, 8310ms}},
                 {ending::killed, 7, 7, end_times{13200ms, 13200ms}}};
  report.restarts_used = 2;
  report.restarts_max = 3;
  report.is_last = false;
  report.text = "restart 2 of 3";
  return report;
}

}  // namespace

TEST_CASE("the box says what was first, where, what became of the others, and what is next") {
  CHECK(round_box(failed(), "/logs/attempt_1/0") ==
        "round 2 failed 8.2 s after its start; the root cause:\n"
        "  | b: rank 2 (local rank 0) exited with code 1: ValueError: loss is NaN\n"
        "  | process 4711, ended after 8.1 s, after 1 restart\n"
        "  | where it failed, the innermost last:\n"
        "  |   train.py:8 in step: raise ValueError(\"loss is NaN\")\n"
        "  | ranks 0 and 1 ended because of it (SIGABRT) after 8.2 s to 9.4 s; rank 7 had to be "
        "killed "
        "after 13 s; ranks 3 to 6 were stopped after 8.3 s\n"
        "  | the whole output of rank 2: /logs/attempt_1/0\n"
        "  | next: restart 2 of 3");
}

TEST_CASE("where ranks stood is said once: in the box, or by the cause itself") {
  round_report report = failed();
  const std::string stood = "rank 3 stood in forward (train.py:88) while rank 0 waited in barrier";
  CHECK(round_box(report, "", stood).find("\n  | before the end: " + stood) != std::string::npos);
  CHECK(round_box(report, "").find("before the end") == std::string::npos);
  report.root_cause->kind = cause_class::hung;
  report.root_cause->text = "no rank of this node has moved for 30 s: " + stood;
  const std::string box = round_box(report, "", stood);
  CHECK(box.find(stood) != std::string::npos);
  CHECK(box.find("before the end") == std::string::npos);
}

TEST_CASE("of ranks whose ends an older ddprun tells, no times are said") {
  round_report report = failed();
  report.ends = {{ending::failed, 2, 3}, {ending::stopped, 0, 1}};
  const std::string text = round_box(report, "");
  CHECK(text.find("| process 4711, after 1 restart\n") != std::string::npos);
  CHECK(text.find("| rank 3 failed too; ranks 0 and 1 were stopped\n") != std::string::npos);
}

TEST_CASE("an exit code is printed if all ranks of the group have it") {
  round_report report = failed();
  report.ends = {{ending::failed, 3, 3, end_times{100ms, 100ms}, 7},
                 {ending::failed, 5, 5, end_times{300ms, 300ms}, 7}};
  CHECK(others_text(report) == "ranks 3 and 5 failed too (exit code 7) after 100 ms to 300 ms");
  report.ends[1].code = 8;
  CHECK(others_text(report) == "ranks 3 and 5 failed too after 100 ms to 300 ms");
}

TEST_CASE("the box is at most 25 lines, whatever was said, and however large the world is") {
  round_report report = failed();
  report.root_cause->tail.clear();
  for (int line = 0; line < 100; ++line)
    report.root_cause->tail += "gloo/transport Timed out waiting " + std::to_string(line) + "\n";
  report.root_cause->is_secondary = true;
  report.ends.clear();
  for (std::uint32_t rank = 0; rank < 60; ++rank)
    report.ends.push_back({ending(rank % 6), rank * 1000, rank * 1000 + 900});
  const std::string text = round_box(report, "/logs");
  CHECK(std::count(text.begin(), text.end(), '\n') < 25);
  CHECK(text.size() < 6000);
}

TEST_CASE("where all others waited in vain, the rank that was still at work is named") {
  round_report report = failed();
  report.root_cause->is_secondary = true;
  report.root_cause->rank = 0;
  report.root_cause->tail =
      "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)\n";
  report.ends = {{ending::secondary, 0, 2}, {ending::stopped, 3, 3}};
  CHECK(round_box(report, "")
            .find("rank 3 was still at work when the others gave up waiting: look "
                  "there first") != std::string::npos);
  // A peer that has gone does not stand still.
  report.root_cause->tail = "gloo/transport/tcp/pair.cc Connection closed by peer\n";
  CHECK(round_box(report, "").find("still at work") == std::string::npos);
}

TEST_CASE("an end that was asked for is no failure, and a bare sentence needs no box") {
  round_report report = failed();
  CHECK(is_worth_a_box(report));
  report.root_cause->kind = cause_class::drain;
  CHECK_FALSE(is_failure(report));
  report = failed();
  report.is_last = true;
  report.root_cause->tail.clear();
  report.ends = {{ending::failed, 2, 2}};
  CHECK(is_failure(report));
  CHECK_FALSE(is_worth_a_box(report));
  report.root_cause.reset();
  CHECK_FALSE(is_failure(report));
}

TEST_CASE("of many nodes most say in one line what failed, and where the box is") {
  CHECK(round_line(failed()) ==
        "round 2 failed: b: rank 2 (local rank 0) exited with code 1: ValueError: loss is NaN; "
        "next: restart 2 of 3; the whole report is in the output of the node of rank 0 and of b");
  round_report report = failed();
  report.is_last = true;
  report.text = "all 3 restarts are used";
  report.root_cause->node.clear();
  CHECK(
      round_line(report).ends_with("; the run ends: all 3 restarts are used; the whole report is "
                                   "in the output of the node of rank "
                                   "0"));
}

TEST_CASE(
    "a lone worker that a signal ended without a word is worth a box: it says what it means") {
  round_report report = failed();
  report.is_last = true;
  report.world_size = 1;
  report.group_world_size = 1;
  report.root_cause->kind = cause_class::signal;
  report.root_cause->code = SIGSEGV;
  report.root_cause->tail.clear();
  report.root_cause->text.clear();
  report.ends = {{ending::failed, 2, 2}};
  CHECK(is_worth_a_box(report));
  CHECK(round_box(report, "").find("that means: it accessed invalid memory") != std::string::npos);
}
