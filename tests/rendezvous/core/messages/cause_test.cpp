#include "rendezvous/core/messages/cause.hpp"

#include "rendezvous/base/signals.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <vector>

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::origin;

namespace {

cause report(cause_class kind, int code, duration age = {}, std::string node = "n") {
  cause value;
  value.kind = kind;
  value.code = code;
  value.age = age;
  value.node = std::move(node);
  return value;
}

struct arrival {
  cause report;
  duration after;
};

// The root cause is the same for every order of arrival.
cause first_of(std::vector<arrival> arrivals) {
  std::vector<std::size_t> order(arrivals.size());
  for (std::size_t index = 0; index < order.size(); ++index)
    order[index] = index;
  std::optional<cause> expected;
  do {
    root_cause first;
    for (const std::size_t index : order) {
      first.add(arrivals[index].report, origin + arrivals[index].after);
      first.add(arrivals[index].report, origin + arrivals[index].after);
    }
    if (expected) CHECK(first.get() == expected);
    expected = first.get();
  } while (std::next_permutation(order.begin(), order.end()));
  return *expected;
}

}  // namespace

TEST_CASE("what is an effect by its own words comes after what is none, whenever that came") {
  cause effect = report(cause_class::signal, SIGABRT, 5s);
  effect.is_secondary = true;
  cause isolated = report(cause_class::node_lost, 0, 1s);
  isolated.by_our_stop = true;
  cause stopped = report(cause_class::signal, SIGTERM, 9s);
  stopped.by_our_stop = true;
  const cause exited = report(cause_class::exit, 3);
  CHECK(first_of({{effect, 0s}, {exited, 3s}, {stopped, 0s}}).code == 3);
  CHECK(first_of({{effect, 0s}, {isolated, 3s}}).kind == cause_class::node_lost);
  CHECK(first_of({{effect, 0s}, {stopped, 0s}}).is_secondary);
}

TEST_CASE("killed, lost or hung beats a plain exit, which beats killed by our stop") {
  cause stopped = report(cause_class::signal, SIGTERM, 5s);
  stopped.by_our_stop = true;
  const cause exited = report(cause_class::exit, 1, 3s);
  const cause killed = report(cause_class::signal, SIGKILL, 10ms);
  CHECK(first_of({{stopped, 0s}, {exited, 0s}, {killed, 0s}}).code == SIGKILL);
  CHECK(first_of({{stopped, 0s}, {exited, 0s}}).kind == cause_class::exit);
  const cause lost = report(cause_class::node_lost, 0);
  CHECK(first_of({{lost, 2s}, {exited, 0s}}).kind == cause_class::node_lost);
  const cause hung = report(cause_class::hung, 0);
  CHECK(first_of({{hung, 2s}, {exited, 0s}}).kind == cause_class::hung);
}

TEST_CASE("among equals the earliest by receive time minus age wins") {
  const cause late_but_old = report(cause_class::exit, 7, 2s);
  const cause early = report(cause_class::exit, 1, 100ms);
  CHECK(first_of({{early, 0s}, {late_but_old, 500ms}}).code == 7);
}

TEST_CASE("an abort is as likely an effect as an exit: the earlier of the two counts") {
  const cause exited = report(cause_class::exit, 3, 50ms);
  const cause aborted = report(cause_class::signal, SIGABRT, 10ms);
  CHECK(first_of({{exited, 0s}, {aborted, 0s}}).code == 3);
  const cause killed = report(cause_class::signal, SIGSEGV, 5ms);
  CHECK(first_of({{exited, 0s}, {aborted, 0s}, {killed, 0s}}).code == SIGSEGV);
}

TEST_CASE("peers that fail because a node leaves do not become the cause") {
  const cause leaves = report(cause_class::drain, SIGTERM);
  const cause exited = report(cause_class::exit, 1, 20ms);
  CHECK(first_of({{leaves, 0s}, {exited, 0s}}).kind == cause_class::drain);
  const cause failed_before = report(cause_class::exit, 1, 5s);
  CHECK(first_of({{leaves, 0s}, {failed_before, 0s}}).kind == cause_class::exit);
}

TEST_CASE("a cause reads as a sentence") {
  cause killed = report(cause_class::signal, SIGKILL, {}, "node-a");
  killed.rank = 3;
  killed.local_rank = 1;
  CHECK(describe(killed) == "node-a: rank 3 (local rank 1) killed by SIGKILL");
  cause exited = report(cause_class::exit, 3, {}, "node-b");
  exited.rank = 0;
  CHECK(describe(exited) == "node-b: rank 0 exited with code 3");
  CHECK(describe(report(cause_class::start, EACCES, {}, "x")) ==
        "x could not be started: Permission denied");
  cause missing = report(cause_class::start, ENOENT, {}, "x");
  missing.text = "cannot execute train.py: No such file or directory";
  CHECK(describe(missing) == "x: cannot execute train.py: No such file or directory");
  cause lost = report(cause_class::node_lost, 0, {}, "x");
  lost.text = "silent for 10 s";
  CHECK(describe(lost) == "x was lost: silent for 10 s");
  CHECK(describe(report(cause_class::drain, SIGTERM, {}, "x")) == "x leaves on SIGTERM");
  CHECK(describe(report(cause_class::operator_stop, SIGINT, {}, "x")) == "x: stopped by SIGINT");
  CHECK(describe(report(cause_class::operator_stop, 0, {}, "")) == "stopped by an operator");
  CHECK(signal_name(200) == "signal 200");
}

TEST_CASE("the exit code follows from the cause and is never 0") {
  CHECK(exit_code_of(report(cause_class::exit, 3)) == 3);
  CHECK(exit_code_of(report(cause_class::exit, 0)) == 1);
  CHECK(exit_code_of(report(cause_class::signal, SIGKILL)) == 137);
  CHECK(exit_code_of(report(cause_class::signal, 4000)) == 1);
  CHECK(exit_code_of(report(cause_class::drain, SIGTERM)) == 143);
  CHECK(exit_code_of(report(cause_class::operator_stop, SIGINT)) == 130);
  CHECK(exit_code_of(report(cause_class::operator_stop, 0)) == 143);
  CHECK(exit_code_of(report(cause_class::start, EACCES)) == 1);
  CHECK(exit_code_of(report(cause_class::node_lost, 0)) == 1);
  CHECK(exit_code_of(report(cause_class::hung, 0)) == 1);
}

// Their times may be wrong by as long as the daemon or its host stood still.
TEST_CASE("an isolated node comes before a worker that our stop ended, whenever they were heard") {
  cause isolated;
  isolated.kind = cause_class::node_lost;
  isolated.by_our_stop = true;
  cause obeyed;
  obeyed.kind = cause_class::signal;
  obeyed.code = 15;
  obeyed.by_our_stop = true;
  const time_point at{std::chrono::hours(1)};
  CHECK(core::comes_before(isolated, at, obeyed, at - std::chrono::seconds(9)));
  CHECK_FALSE(core::comes_before(obeyed, at - std::chrono::seconds(9), isolated, at));
}
