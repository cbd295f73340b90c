#include "launcher/process/program_answer.hpp"

#include "tests/support/catch.hpp"

using ddprun::launcher::program_answer;
using namespace std::chrono_literals;

TEST_CASE("a program's answer is all that it prints, with the variables that it is given") {
  CHECK(program_answer({"sh", "-c", "echo one; echo $TOLD; echo three >&2"}, {{"TOLD", "two"}}, 60s,
                       1000) == "one\ntwo\n");
  CHECK(program_answer({"sh", "-c", "cat"}, {}, 60s, 1000).empty());
}

TEST_CASE("a program that does not end, or not in time, delays nothing") {
  CHECK(program_answer({"sleep", "1000"}, {}, 20ms, 1000).empty());
  CHECK(program_answer({"sh", "-c", "echo half; exec sleep 1000"}, {}, 20ms, 1000).empty());
  CHECK(program_answer({"yes"}, {}, 60s, 1000).size() >= 1000);
  CHECK(program_answer({"/nowhere/program"}, {}, 60s, 1000).empty());
}
