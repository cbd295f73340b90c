// When a rank counts as lost, because a step waits for it on a GPU in vain.
#include "worker/training/loss_rule.hpp"

#include "tests/support/catch.hpp"

namespace ddprun::tests {
namespace {

using namespace std::chrono_literals;
using worker::loss_rule;

const time_point start{1h};

TEST_CASE("a sign of a loss counts at once", "[training]") {
  loss_rule rule(10min);
  rule.begin_step(start);
  CHECK(rule.look(start, "", false).empty());
  CHECK(rule.look(start, "nccl has lost another rank", false) == "nccl has lost another rank");
}

TEST_CASE("a step may not wait longer than a collective may take", "[training]") {
  loss_rule rule(10min);
  rule.begin_step(start);
  CHECK(rule.look(start + 1h, "", false).empty());  // the host is still making its passes
  rule.begin_wait(start + 1h);
  CHECK(rule.look(start + 1h + 10min - 1ms, "", false).empty());
  CHECK(rule.look(start + 1h + 10min, "", false) ==
        "timed out: the GPU still waits for other ranks after 10 min");
  rule.begin_step(start + 2h);
  CHECK(rule.look(start + 3h, "", false).empty());
}

// In an ordinary stop the other ranks still come.
TEST_CASE("after SIGTERM a step may take twice as long as any before", "[training]") {
  const auto [step, limit] =
      GENERATE(std::pair(10ms, 1000ms), std::pair(700ms, 1400ms), std::pair(20000ms, 2000ms));
  loss_rule rule(10min);
  rule.begin_step(start);
  rule.end_step(start + 40s);  // the first one does not count
  rule.begin_step(start + 1min);
  rule.end_step(start + 1min + step);
  rule.begin_step(start + 90s);
  rule.end_step(start + 90s + 1ms);
  rule.begin_step(start + 2min);
  const auto told = start + 2min + 3s;
  CHECK(rule.look(told - 1ms, "", false).empty());
  CHECK(rule.look(told, "", true).empty());
  CHECK(rule.look(told + limit - 1ms, "", true).empty());
  CHECK(rule.look(told + limit, "", true) ==
        ddprun::to_text(limit) + " after SIGTERM the GPU still waits for other ranks");
}

TEST_CASE("whether a stop is an ordinary one may become known, and change", "[training]") {
  loss_rule rule(10min);
  rule.begin_step(start);
  CHECK(rule.look(start, "", true).empty());
  CHECK(rule.look(start + 1h, "", false).empty());
  CHECK(rule.look(start + 2h, "", true).empty());
  CHECK(rule.look(start + 2h + 1s, "", true) ==
        "1 s after SIGTERM the GPU still waits for other ranks");
}

TEST_CASE("a step that begins after SIGTERM has all of that time", "[training]") {
  loss_rule rule(10min);
  rule.begin_step(start);
  CHECK(rule.look(start, "", true).empty());
  rule.end_step(start + 10ms);
  rule.begin_step(start + 5s);
  CHECK(rule.look(start + 5s, "", true).empty());
  CHECK(rule.look(start + 6s - 1ms, "", true).empty());
  CHECK_FALSE(rule.look(start + 6s, "", true).empty());
}

}  // namespace
}  // namespace ddprun::tests
