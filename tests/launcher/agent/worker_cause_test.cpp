#include "launcher/agent/worker_cause.hpp"

#include "tests/support/catch.hpp"

#include <cerrno>
#include <csignal>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

std::string raised(const std::string& error) {
  return "Traceback (most recent call last):\n  File \"train.py\", line 7, in f\n    g()\n" +
         error + "\n";
}

worker_end stopped(const std::string& said_before) {
  worker_end end;
  end.rank = 2;
  end.how = exit_status{0, SIGTERM};
  end.tail_before_stop = said_before;
  end.tail = said_before + "handler: got SIGTERM\n";
  return end;
}

const std::string gone = raised("RuntimeError: gloo/transport/x.cc Connection closed by peer");

}  // namespace

TEST_CASE("a worker that was stopped on its way out of a failure of its own was failing") {
  const cause why = cause_of(stopped(raised("ValueError: loss is NaN")), "");
  CHECK(why.was_failing);
  CHECK(why.text == "ValueError: loss is NaN");
  CHECK(why.tail == raised("ValueError: loss is NaN"));
}

TEST_CASE("a worker that was stopped at work, or by what others did, was not") {
  CHECK_FALSE(cause_of(stopped(""), "").was_failing);
  CHECK_FALSE(cause_of(stopped("step 3\n"), "").was_failing);
  CHECK_FALSE(cause_of(stopped(gone), "").was_failing);
  // The program has caught that exception and gone on.
  const std::string since(1000, '.');
  CHECK_FALSE(cause_of(stopped(raised("ValueError: retried") + since), "").was_failing);
  // Its reaction to our signal is not a failure of its own.
  worker_end end = stopped("step 3\n");
  end.tail += raised("KeyboardInterrupt");
  CHECK_FALSE(cause_of(end, "").was_failing);
}

TEST_CASE("what @record has kept counts more than what was printed") {
  worker_end end;
  end.how = exit_status{1};
  end.tail = gone;
  CHECK(cause_of(end, "").is_secondary);
  const cause why = cause_of(end, raised("KeyError: 'x'"));
  CHECK_FALSE(why.is_secondary);
  CHECK(why.text == "KeyError: 'x'");
  CHECK(why.tail == raised("KeyError: 'x'"));
  CHECK(cause_of(end, "no exception").is_secondary);
}

TEST_CASE("a sentence in the error file is told where there is no exception") {
  worker_end end;
  end.how = exit_status{3};
  end.tail = "the last word\n";
  const cause why = cause_of(end, "the data set is empty\nsee the manual\n");
  CHECK(why.text == "the data set is empty");
  CHECK(why.tail == end.tail);
  CHECK(cause_of(end, std::string(1000, 'x')).text == std::string(200, 'x'));
  end.tail = raised("KeyError: 'x'");
  CHECK(cause_of(end, "the data set is empty").text == "KeyError: 'x'");
}

TEST_CASE("a worker that could not be started is a failure, and one that was not tried is none") {
  worker_end end;
  end.local_rank = 3;
  end.how = start_failure{start_stage::exec, ENOENT, "./train", {}, false, false};
  const cause failed = cause_of(end, "");
  CHECK(failed.kind == cause_class::start);
  CHECK(failed.local_rank == 3U);
  CHECK(failed.code == ENOENT);
  CHECK(failed.text == "cannot execute ./train: No such file or directory (stage: exec)");
  CHECK_FALSE(failed.by_our_stop);
  end.how = not_tried();
  const cause spared = cause_of(end, "");
  CHECK(spared.kind == cause_class::start);
  CHECK(spared.code == 0);
  CHECK(spared.by_our_stop);
}
