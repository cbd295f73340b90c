#include "launcher/agent/run_reporter.hpp"

#include "rendezvous/core/messages/cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

const std::string last_words =
    "Traceback (most recent call last):\n  File \"train.py\", line 8, in step\n"
    "    raise ValueError(\"loss is NaN\")\nValueError: loss is NaN\n";

cause failure_of(round_number round, const std::string& node = "a") {
  cause why;
  why.round = round;
  why.node = node;
  why.rank = 1;
  why.local_rank = 0;
  why.process = 4711;
  why.code = 1;
  why.text = "ValueError: loss is NaN";
  why.tail = last_words;
  return why;
}

round_report failed(round_number round, bool is_last) {
  round_report report;
  report.round = round;
  report.world_size = 2;
  report.group_world_size = 2;
  report.root_cause = failure_of(round, "b");
  report.is_last = is_last;
  report.exit_code = is_last ? 1 : 0;
  report.text = is_last ? "all 3 restarts are used" : "restart 1 of 3";
  return report;
}

// As the machine puts it: the sentence about the root cause, and why nothing follows.
core::leave end_of_run(const cause& why) {
  return {1, core::describe(why) + "; all 3 restarts are used", why};
}

struct told {
  explicit told(note_level least = note_level::info, const std::string& error_file = "")
      : out("a", "job1", {least, {time_style::none, log_format::text}},
            [this](const std::string& line) { lines.push_back(line.substr(0, line.size() - 1)); }) {
    run_reporter::options values;
    values.node = "a";
    values.least = least;
    values.restarts_max = 3;
    values.error_file.path = error_file;
    values.error_file.mark = "mark";
    run_reporter::outside given;
    given.save = [this](const std::string& line) { saved.push_back(line); };
    given.tell = [this](const run_event& event) {
      events += (events.empty() ? "" : " ") + std::string(to_string(event.kind));
    };
    reporter.emplace(io.get_executor(), out, values, std::move(given));
  }

  void begin(round_number round, const std::vector<worker_command>& commands = {}) {
    core::start_workers effect;
    effect.round = round;
    effect.members = "ranks 0-1 on a";
    reporter->begin_round(effect, commands);
  }
  void report(const round_report& what) { reporter->report(what, {"job1", "a"}); }
  // Without what stands at the start of each line.
  std::string last() const { return lines.back().substr(std::string("ddprun a: ").size()); }
  std::size_t count(const std::string& words) const {
    std::size_t found = 0;
    for (const std::string& line : lines)
      found += line.find(words) != std::string::npos ? 1 : 0;
    return found;
  }
  std::string error_file(const std::string& path) {
    reporter->when_written([] {});
    io.run();
    return tests::content_of(path);
  }

  boost::asio::io_context io;
  std::vector<std::string> lines, saved;
  std::string events;
  console out;
  std::optional<run_reporter> reporter;
};

}  // namespace

TEST_CASE("the last line does not repeat the root cause that a box has shown") {
  told run;
  run.begin(1);
  run.report(failed(1, true));
  CHECK(run.count("loss is NaN") == 1);
  run.reporter->tell_leaving(end_of_run(failure_of(1, "b")));
  CHECK(run.last() == "error: exit code 1: round 1 failed; its root cause is shown above");
  CHECK(run.count("loss is NaN") == 1);
}

TEST_CASE("a root cause whose report was lost is shown when the node leaves, and what follows") {
  told run;
  run.begin(1);
  run.reporter->tell_leaving(end_of_run(failure_of(1, "b")));
  CHECK(run.count("loss is NaN") == 1);
  CHECK(run.last() ==
        "error: exit code 1: round 1 failed; its root cause is shown above; "
        "all 3 restarts are used");
}

TEST_CASE("the last line has the root cause where nothing has shown it") {
  told quiet(note_level::error);
  quiet.begin(1);
  quiet.report(failed(1, true));
  quiet.reporter->tell_leaving(end_of_run(failure_of(1, "b")));
  REQUIRE(quiet.lines.size() == 1);
  CHECK(quiet.count("ValueError: loss is NaN; all 3 restarts are used") == 1);
}

TEST_CASE("what an earlier round has shown does not stand for the root cause of the run") {
  told run;
  run.begin(1);
  run.report(failed(1, true));
  run.begin(2);
  cause again = failure_of(2, "b");
  again.tail.clear();
  run.reporter->tell_leaving(end_of_run(again));
  CHECK(run.last() == "error: exit code 1: " + end_of_run(again).text);
}

TEST_CASE("a report that comes again is not new, and one of another instance is") {
  told run;
  run.begin(1);
  const round_report second = failed(2, false);
  CHECK(run.reporter->is_new(second));
  run.report(second);
  CHECK_FALSE(run.reporter->is_new(second));
  CHECK_FALSE(run.reporter->is_new(failed(1, false)));
  CHECK(run.reporter->is_new(failed(3, false)));
  round_report other = failed(1, false);
  other.instance = 7;
  CHECK(run.reporter->is_new(other));
  REQUIRE(run.saved.size() == 1);
  CHECK(run.saved[0].find("\"reported_by\":\"a\"") != std::string::npos);
}

TEST_CASE("events of a run follow what it was told, and the summary comes at the end") {
  told run;
  run.begin(1);
  run.reporter->all_started(1, {});
  run.report(failed(1, false));
  run.begin(2);
  run.reporter->all_started(2, {});
  run.reporter->hear_hang(hung_rank{});
  round_report well;
  well.round = 2;
  well.is_last = true;
  run.report(well);
  CHECK(run.count("this node was in 2 rounds") == 0);
  run.reporter->tell_leaving({0, "every worker succeeded", std::nullopt});
  CHECK(run.events == "round_started round_failed round_started recovered hang ended");
  CHECK(run.count("this node was in 2 rounds, 1 of which failed") == 1);
}

TEST_CASE("a node that leaves well says why, unless the machine has said it last") {
  told run;
  run.begin(1);
  run.reporter->note(note_level::info, "the run is over");
  run.reporter->tell_leaving({0, "the run is over", std::nullopt});
  CHECK(run.count("the run is over") == 1);

  told quiet(note_level::warning);
  quiet.begin(1);
  quiet.reporter->note(note_level::info, "the run is over");
  CHECK(quiet.lines.empty());

  told other;
  other.begin(1);
  other.reporter->tell_leaving({0, "this node left", std::nullopt});
  CHECK(other.last() == "this node left");
}

TEST_CASE("a command is shown once, and again when it has changed") {
  told run(note_level::debug);
  std::vector<worker_command> commands(1);
  commands[0].argv = {"python3", "train.py"};
  commands[0].rank = 4;
  run.begin(1, commands);
  CHECK(run.last() == "rank 4 (local rank 0) is started as: python3 train.py");
  run.begin(2, commands);
  CHECK(run.count("is started as") == 1);
  commands[0].argv.emplace_back("--restart");
  run.begin(3, commands);
  CHECK(run.count("is started as") == 2);
  run.reporter->all_started(3, {{0, 4, 4711, 0}});
  CHECK(run.last() == "rank 4 (local rank 0) is process 4711");

  told usual;
  usual.begin(1, commands);
  usual.reporter->all_started(1, {{0, 4, 4711, 0}});
  CHECK(usual.lines.size() == 1);  // that the round starts
}

TEST_CASE("the own error file is that of the worker that has failed first, if it is of this node") {
  const tests::temporary_folder folder;
  const std::string path = folder.path + "/error.json";
  const std::string of_worker = R"({"message": {"message": "its own", "extraInfo": {}}})";
  SECTION("here") {
    told run(note_level::info, path);
    run.begin(1);
    run.reporter->keep_error_file(4711, of_worker);
    run.reporter->tell_leaving(end_of_run(failure_of(1)));
    CHECK(run.error_file(path).find("\"its own\"") != std::string::npos);
  }
  SECTION("on another node, or in an earlier round") {
    const cause first = GENERATE(failure_of(2, "b"), failure_of(1));
    told run(note_level::info, path);
    run.begin(1);
    run.reporter->keep_error_file(4711, of_worker);
    if (first.node == "a") run.begin(2);
    run.reporter->tell_leaving(end_of_run(first));
    const std::string content = run.error_file(path);
    CHECK(content.find("\"its own\"") == std::string::npos);
    CHECK(content.find("loss is NaN") != std::string::npos);
  }
  SECTION("of a worker of an earlier round with the same number") {
    told run(note_level::info, path);
    run.begin(1);
    run.reporter->keep_error_file(4711, of_worker);
    run.begin(2);
    run.reporter->tell_leaving(end_of_run(failure_of(2)));
    CHECK(run.error_file(path).find("\"its own\"") == std::string::npos);
  }
  SECTION("a run that has not begun") {
    told run(note_level::info, path);
    run.reporter->tell_end_before_start(69, "nothing answers at head:29400");
    CHECK(run.error_file(path).find("nothing answers at head:29400") != std::string::npos);
    CHECK(run.lines.empty());
  }
  SECTION("a run that ends well") {
    told run(note_level::info, path);
    run.begin(1);
    run.reporter->tell_leaving({0, "every worker succeeded", std::nullopt});
    CHECK(run.error_file(path).empty());
  }
}
