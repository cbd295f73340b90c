#include "launcher/evidence/python_stack.hpp"

#include "launcher/evidence/rank_evidence.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <utility>

namespace ddprun::launcher::evidence {
namespace {

// As CPython 3.11 writes it; shortened.
const std::string stacks_of_two_threads =
    "Thread 0x00007f21d8bff6c0 (most recent call first):\n"
    "  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n"
    "  File \"/usr/lib/python3.11/threading.py\", line 975 in _bootstrap\n"
    "\n"
    "Current thread 0x00007f2228c7d040 (most recent call first):\n"
    "  File \"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line "
    "2935 in all_reduce\n"
    "  File \"/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py\", line 81 in "
    "wrapper\n"
    "  File \"/home/me/my \"odd\", line 3 in it/train.py\", line 41 in step\n"
    "  File \"/home/me/train.py\", line 50 in <module>\n";

rank_evidence rank_with(std::uint32_t rank, const std::string& stacks, char state = 'S') {
  rank_evidence one;
  one.rank = rank;
  one.pid = static_cast<pid_t>(1000 + rank);
  one.state = state;
  one.stacks = stacks;
  one.stack = main_stack(stacks);
  return one;
}

std::string standing_in(const std::string& function, int line) {
  return "Current thread 0x1 (most recent call first):\n  File \"/home/me/train.py\", line " +
         std::to_string(line) + " in " + function + "\n";
}

}  // namespace

TEST_CASE("the main thread's stack is read from what faulthandler writes") {
  const auto stack = main_stack(stacks_of_two_threads);
  REQUIRE(stack.size() == 4);
  CHECK(stack[0].function == "all_reduce");
  CHECK(stack[0].line == 2935);
  CHECK(stack[2].file == "/home/me/my \"odd\", line 3 in it/train.py");
  CHECK(stack[3].function == "<module>");
}

TEST_CASE("a newer Python names its threads, and shows what is in C behind them") {
  const auto stack = main_stack(
      "Thread 0x00007f21d8bff6c0 [pt_main] (most recent call first):\n"
      "  File \"/a.py\", line 1 in other\n\n"
      "Current thread 0x00007f2228c7d040 [python] (most recent call first):\n"
      "  File \"/b.py\", line 2 in mine\n\n"
      "Current thread's C stack trace (most recent call first):\n"
      "  Binary file \"/usr/bin/python3\", at _Py_DumpStack+0x3c [0x5f]\n");
  REQUIRE(stack.size() == 1);
  CHECK(stack[0].function == "mine");
}

TEST_CASE("where no thread is the current one the last is the main thread") {
  const auto stack = main_stack(
      "Thread 0x1 (most recent call first):\n  File \"/a.py\", line 1 in other\n\n"
      "Thread 0x2 (most recent call first):\n  File \"/b.py\", line 2 in mine\n");
  REQUIRE(stack.size() == 1);
  CHECK(stack[0].function == "mine");
}

TEST_CASE("of each prefix of the text as much is read as is there") {
  for (std::size_t size = 0; size <= stacks_of_two_threads.size(); ++size)
    CHECK(main_stack(std::string_view(stacks_of_two_threads).substr(0, size)).size() <= 4);
  CHECK(main_stack("  File \"x\", line 99999999999 in f\n").empty());
  CHECK(main_stack("  File \"x\", line ??? in f\n").empty());
  std::string deep = "Current thread 0x1:\n";
  for (int depth = 0; depth < 1000; ++depth)
    deep += "  File \"x\", line 1 in f\n";
  CHECK(main_stack(deep).size() == frames_max);
}

TEST_CASE("a stack says in which collective a rank waits, and where the script called it") {
  CHECK(standing_of(main_stack(stacks_of_two_threads)) ==
        standing{"all_reduce", "step (train.py:41)"});
  CHECK(standing_of({}) == standing{});
  const stack_frame engine{"/x/site-packages/torch/autograd/graph.py", 865, "_engine_run_backward"};
  const stack_frame user{"/home/me/train.py", 7, "main"};
  CHECK(standing_of({engine, user}) == standing{"backward", "main (train.py:7)"});
  // A model's own forward below DistributedDataParallel's.
  const stack_frame wrapper{"/x/site-packages/torch/nn/parallel/distributed.py", 1, "forward"};
  CHECK(standing_of({user, wrapper}) == standing{"", "main (train.py:7)"});
}

TEST_CASE("one sentence says where each rank stood, those that wait for others last") {
  node_evidence seen;
  for (const std::uint32_t rank : {0, 1, 2, 4, 5})
    seen.ranks.push_back(rank_with(rank, stacks_of_two_threads));
  seen.ranks.push_back(rank_with(3, standing_in("forward", 88)));
  CHECK(sentence_of(seen) ==
        "rank 3 stood in forward (train.py:88) while 5 ranks waited in all_reduce, step "
        "(train.py:41)");
  seen.ranks.push_back(rank_with(6, "", 'T'));
  seen.ranks.push_back(rank_with(7, "", '?'));
  seen.ranks.push_back(rank_with(8, "", 'T'));
  CHECK(sentence_of(seen) ==
        "rank 3 stood in forward (train.py:88), ranks 6 and 8 had been stopped (state T) while 5 "
        "ranks waited in all_reduce, step (train.py:41)");
}

TEST_CASE("without a single stack there is no sentence") {
  node_evidence seen;
  CHECK(sentence_of(seen).empty());
  seen.ranks.push_back(rank_with(0, "", 'S'));
  CHECK(sentence_of(seen).empty());
}

}  // namespace ddprun::launcher::evidence
