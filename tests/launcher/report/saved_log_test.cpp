#include "launcher/report/saved_log.hpp"

#include "rendezvous/log/own_line.hpp"
#include "tests/launcher/report/traceback.hpp"
#include "tests/support/catch.hpp"

#include <array>
#include <sstream>

using namespace ddprun::launcher;
using ddprun::tests::peer_gone;
using ddprun::tests::raised;

namespace {

std::vector<std::string> explained(const std::string& text) {
  saved_log log;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    log.add(line);
  return log.explain();
}

// Puts the label before each line of the text.
std::string labelled(const std::string& label, const std::string& text) {
  std::istringstream stream(text);
  std::string all;
  for (std::string line; std::getline(stream, line);)
    all += label + line + "\n";
  return all;
}

}  // namespace

TEST_CASE(
    "a saved log is explained by the rank that failed by itself, even if another printed first") {
  for (const auto& [first, second, name] :
       {std::array<std::string, 3>{"[node-b:2] ", "[node-a:0] ", "rank 2 on node-b"},
        std::array<std::string, 3>{"[default2]:", "[default0]:", "default2"},
        std::array<std::string, 3>{" 2: ", "10: ", "task 2"},
        std::array<std::string, 3>{"[rank2]: ", "[rank0]: ", "rank 2"}}) {
    const std::string text = "loading\n" + labelled(second, raised(peer_gone)) + "epoch 3\n" +
                             labelled(first, raised("ValueError: loss is NaN"));
    const auto lines = explained(text);
    INFO(name);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "root cause: " + name + ", line 7: ValueError: loss is NaN");
    CHECK(lines[1] == "  where it failed, the innermost last:");
    CHECK(lines[2] == "    /data/train.py:7 in <module>: step()");
    CHECK(lines[3].starts_with("  then failed: "));
    CHECK(lines[3].ends_with(" (line 2, a secondary failure)"));
  }
}

TEST_CASE("PyTorch's rank is told beside torchrun's label, which counts within a node") {
  const auto lines =
      explained(labelled("[default0]:", labelled("[rank5]: ", raised("KeyError: 'x'"))));
  REQUIRE_FALSE(lines.empty());
  CHECK(lines[0] == "root cause: default0 (rank 5), line 1: KeyError: 'x'");
}

TEST_CASE("ranks of two nodes with one label, in one file, are told apart") {
  std::istringstream one(labelled("[default1]:[rank1]: ", raised(peer_gone)));
  std::istringstream three(labelled("[default1]:[rank3]: ", raised("ValueError: loss is NaN")));
  std::string mixed;
  for (std::string line; std::getline(one, line);) {
    mixed += line + "\n";
    if (std::getline(three, line)) mixed += line + "\n";
  }
  const auto lines = explained(mixed);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("root cause: default1 (rank 3), line "));
  CHECK(lines[0].ends_with(": ValueError: loss is NaN"));
  CHECK(lines[2] == "    /data/train.py:7 in <module>: step()");
  CHECK(lines[3].starts_with("  then failed: "));
}

TEST_CASE("a log in which all failures are effects says that the cause is not in it") {
  const auto lines = explained(labelled("[rank0]: ", raised(peer_gone)) +
                               labelled("[rank1]: ", raised(peer_gone)));
  REQUIRE(lines.size() > 3);
  CHECK(lines[0].starts_with("root cause: rank 0, line 1: RuntimeError: "));
  CHECK(lines[lines.size() - 2] ==
        "  every failure in this log is secondary: why the first rank ended is not in this "
        "log");
}

TEST_CASE("a known message without an exception is enough, and what torchrun saw is said") {
  const auto lines = explained(
      "[default1]:[E1124 ProcessGroupNCCL.cpp:696] [Rank 1] Watchdog caught collective operation "
      "timeout: WorkNCCL(SeqNum=3)\n"
      "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-24_01:00:00\n"
      "  host      : node-b\n  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: 4711)\n");
  REQUIRE(lines.size() >= 3);
  CHECK(lines[0] == "root cause: default1, line 1");
  CHECK(lines.back() ==
        "  torchrun saw first: host node-b rank 1 (local_rank: 1) exitcode -6 (pid: 4711)");
  CHECK(explained("srun: error: node-b: task 3: Killed\n") ==
        std::vector<std::string>{"srun saw first: node-b: task 3: Killed"});
}

TEST_CASE("torchrun's own exception is about those of others") {
  const auto lines =
      explained(labelled("[rank1]: ", raised("KeyError: 'x'")) +
                raised("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "));
  REQUIRE_FALSE(lines.empty());
  CHECK(lines[0] == "root cause: rank 1, line 1: KeyError: 'x'");
  CHECK(lines.back() == "    /data/train.py:7 in <module>: step()");
}

TEST_CASE("colours of a terminal that a log was saved from do not matter") {
  const auto plain = explained(labelled("[a:0] ", raised("KeyError: 'x'")));
  REQUIRE_FALSE(plain.empty());
  CHECK(explained(labelled("\x1b[36m[a:0] \x1b[0m", raised("\x1b[1;35mKeyError\x1b[0m: 'x'"))) ==
        plain);
}

TEST_CASE("ddprun's own box is the answer, the last one") {
  const std::string box =
      "ddprun node-a 02:13:05.412: warning: round 1 failed 3 s after its start; the root cause:\n"
      "  | node-a: rank 1 (local rank 1) exited with code 1\n  | the run ends: enough\n";
  CHECK(explained("x\n" + labelled("[rank0]: ", raised("KeyError: 'x'")) + box + box + "y\n") ==
        std::vector<std::string>{"round 1 failed 3 s after its start; the root cause:",
                                 "  node-a: rank 1 (local rank 1) exited with code 1",
                                 "  the run ends: enough"});
}

TEST_CASE("of the rounds before the last one each has a line, once") {
  const auto box = [](const std::string& node, int round) {
    const std::string number = std::to_string(round);
    return "ddprun " + node + " 02:13:05: warning: round " + number +
           " failed 3 s after its start; the root cause:\n  | a: rank " + number +
           " (local rank 0) exited with code 1\n  | next: more\n";
  };
  std::string log;
  for (const std::string node : {"a", "b"})
    log += box(node, 1) + box(node, 2) + box(node, 3);
  CHECK(explained(log) ==
        std::vector<std::string>{
            "round 3 failed 3 s after its start; the root cause:",
            "  a: rank 3 (local rank 0) exited with code 1", "  next: more",
            "before that, round 1 failed 3 s after its start: a: rank 1 (local rank 0) exited with "
            "code 1",
            "before that, round 2 failed 3 s after its start: a: rank 2 (local rank 0) exited with "
            "code 1"});
}

TEST_CASE("stamps and names of kubectl and docker before each line do not matter") {
  const std::string words = labelled("[a:0] ", raised("KeyError: 'x'"));
  const auto plain = explained(words);
  REQUIRE_FALSE(plain.empty());
  for (const std::string stamp :
       {"2026-11-25T16:10:03.412345678Z ", "2026-11-25T16:10:03+02:00 ", "[pod/job-0/train] ",
        "[pod/job-0/train] 2026-11-25T16:10:03.412345678Z "}) {
    INFO(stamp);
    CHECK(explained(labelled(stamp, words)) == plain);
  }
  // The label is the only sign of its source.
  const auto lines = explained(labelled("[pod/job-0/train] ", raised("KeyError: 'x'")));
  REQUIRE_FALSE(lines.empty());
  CHECK(lines[0] == "root cause: pod/job-0/train, line 1: KeyError: 'x'");
  CHECK(explained(labelled("2026-11-25T16:10:03Z ",
                           "ddprun a 1: warning: round 1 failed 3 s after its start; the root "
                           "cause:\n  | a: rank 1 exited with code 1\n")) ==
        std::vector<std::string>{"round 1 failed 3 s after its start; the root cause:",
                                 "  a: rank 1 exited with code 1"});
}

TEST_CASE("logs that call the root cause the first one are read, too") {
  CHECK(explained("ddprun a 1: warning: round 1 failed 3 s after its start; the "
                  "first cause:\n  | a: rank 1 exited with code 1\n") ==
        std::vector<std::string>{"round 1 failed 3 s after its start; the first cause:",
                                 "  a: rank 1 exited with code 1"});
}

TEST_CASE("several files are those of one job, and each failure is found in its own") {
  saved_log log;
  const auto add = [&log](const std::string& file, const std::string& text) {
    log.begin_file(file);
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      log.add(line);
  };
  add("logs/0/stderr.log", "loading\n" + raised(peer_gone));
  add("logs/1/stderr.log", "loading\nepoch 1\n" + raised("ValueError: loss is NaN"));
  const auto lines = log.explain();
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "root cause, logs/1/stderr.log, line 3: ValueError: loss is NaN");
  CHECK(lines[3] == "  then failed: logs/0/stderr.log (line 2, a secondary failure)");
}

TEST_CASE("ddprun's own box is read from --log-format=json, too") {
  const ddprun::log::line_origin from{"ddprun", "node-a", "job1"};
  const std::string cause =
      "node-a: rank 1 (local rank 1) exited with code 1: " + std::string(3000, 'x');
  const auto line = [&](std::string_view text) {
    return ddprun::log::json_line(from, ddprun::time_style::iso, {}, ddprun::note_level::warning, 1,
                                  text);
  };
  const std::string log = line("round 1 failed 3 s after its start; the root cause:\n  | " + cause +
                               "\n  | the run ends: enough") +
                          line("error: exit code 1: " + cause);
  const std::vector<std::string> box{"round 1 failed 3 s after its start; the root cause:",
                                     "  " + cause, "  the run ends: enough"};
  CHECK(explained(labelled("[rank0]: ", raised("KeyError: 'x'")) + log) == box);
  CHECK(explained(labelled("0: ", log)) == box);
  // JSON objects of other programs, and malformed ones.
  CHECK(explained("{\"message\":\"x; the root cause:\",\"lines\":[\"y\"]}\n{\"program\":1}\n{\n")
            .empty());
}

TEST_CASE("nothing like a failure is nothing, and bytes of any kind do no harm") {
  CHECK(explained("epoch 1\nepoch 2\n12: 13\n[x]\n[]:\n[rank]: \n[:3] \n:\n").empty());
  std::string bytes;
  for (int number = 0; number < 100'000; ++number)
    bytes += static_cast<char>(number * 7 % 256);
  CHECK(explained(bytes).empty());
  CHECK(explained(std::string(1'000'000, 'x')).empty());
}
