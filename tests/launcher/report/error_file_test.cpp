#include "launcher/report/error_file.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("what @record has written is read as the interpreter would print it") {
  CHECK(text_of_error_file(R"({"message": {"message": "KeyError: 'x'", "extraInfo":
      {"py_callstack": "Traceback ...\nKeyError: 'x'\n", "timestamp": "17"}}})") ==
        "Traceback ...\nKeyError: 'x'\n");
  CHECK(text_of_error_file(R"({"message": {"message": "KeyError: 'x'"}})") == "KeyError: 'x'");
  CHECK(text_of_error_file(R"({"message": "a sentence", "timestamp": 17})") == "a sentence");
}

TEST_CASE("what is no such file says nothing") {
  for (const char* const text :
       {"", "{", "[]", "3", "{}", R"({"message": 3})", R"({"message": {"message": 3}})",
        R"({"message": {"extraInfo": {"py_callstack": ["x"]}}})", "\xff\xfe"}) {
    INFO(text);
    CHECK(text_of_error_file(text).empty());
  }
}

namespace {

cause killed_by(int signal) {
  cause first;
  first.node = "b";
  first.rank = 2;
  first.local_rank = 0;
  first.kind = cause_class::signal;
  first.code = signal;
  return first;
}

}  // namespace

TEST_CASE("a run's error file is that of its root cause, with how the process ended") {
  run_end end;
  end.root_cause = killed_by(9);
  end.recorded = R"({"message": {"message": "E: ä", "extraInfo": {"timestamp": "17"}}, "mine": 1})";
  CHECK(error_file_of_run(end) ==
        R"({"message":{"message":"E: \u00e4","extraInfo":{"timestamp":"17"},"errorCode":-9},)"
        R"("mine":1})");
  end.root_cause->kind = cause_class::exit;
  end.root_cause->code = 3;
  end.recorded = R"({"message": {"errorCode": 1}})";
  CHECK(error_file_of_run(end) == R"({"message":{"errorCode":3}})");
  // As in torchrun: this form has no place for a code.
  end.recorded = R"({"message": "a sentence", "timestamp": 17})";
  CHECK(error_file_of_run(end) == R"({"message":"a sentence","timestamp":17})");
}

TEST_CASE("what an error file nests without end is left out of the run's") {
  run_end end;
  end.root_cause = killed_by(9);
  const std::string nested = std::string(400'000, '[') + std::string(400'000, ']');
  end.recorded = R"({"message": {"message": "E", "extraInfo": )" + nested + "}}";
  const std::string written = error_file_of_run(end);
  CHECK(written.size() < 1000);
  CHECK(text_of_error_file(written) == "E");
}

TEST_CASE("a root cause that has left no file is told in the same form") {
  for (const char* const recorded : {"", "{", "[]", "{}", R"({"message": 3})", "\xff"}) {
    INFO(recorded);
    run_end end;
    end.root_cause = killed_by(9);
    end.root_cause->tail = "its \xff last words\n";
    end.recorded = recorded;
    end.unix_seconds = 17;
    CHECK(error_file_of_run(end) ==
          R"({"message":{"message":"b: rank 2 (local rank 0) killed by SIGKILL","extraInfo":)"
          R"({"py_callstack":"its \ufffd last words\n","timestamp":"17"},"errorCode":-9}})");
  }
}

TEST_CASE("a run in which no worker had failed has no worker's code in its error file") {
  run_end end;
  end.text = "waited in vain for 1 of 2 nodes";
  end.recorded = R"({"message": "of nobody"})";
  end.unix_seconds = 17;
  const std::string told = error_file_of_run(end);
  CHECK(told == R"({"message":{"message":"waited in vain for 1 of 2 nodes","extraInfo":)"
                R"({"py_callstack":"","timestamp":"17"}}})");
  end.recorded.clear();
  end.root_cause = killed_by(0);
  end.root_cause->kind = cause_class::node_lost;
  CHECK(error_file_of_run(end).find("errorCode") == std::string::npos);
  // It was stopped while it was exiting.
  end.root_cause = killed_by(15);
  end.root_cause->was_failing = true;
  CHECK(error_file_of_run(end).find(R"("errorCode":1})") != std::string::npos);
}
