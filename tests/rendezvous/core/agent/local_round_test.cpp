// A round at one node, without an agent: its phases, and the causes that it reports.
#include "rendezvous/core/agent/local_round.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

#include <csignal>

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::local_causes;
using ddprun::core::local_round;
using ddprun::core::unclear_ends;
using ddprun::tests::clock_at;
using ddprun::tests::machine_origin;
using ddprun::tests::origin;

namespace {

assignment assignment_of(std::uint32_t group_rank, std::uint32_t nodes) {
  assignment value;
  value.group_rank = group_rank;
  value.group_world_size = nodes;
  return value;
}

status told_by(const local_round& here) {
  status value;
  here.tell(value);
  return value;
}

}  // namespace

TEST_CASE("a leader's round: service, place, workers, success, end") {
  local_round here(7, 3, machine_origin);
  CHECK_FALSE(here.is_on());
  here.prepare(2);
  CHECK(here.is_on());
  CHECK(here.is_leader());
  CHECK_FALSE(here.is_alone());
  CHECK(here.has_service());
  CHECK(here.service_port() == 0);
  here.open_service(29500, 29501, {"ids", "what it is"});
  here.take_assignment(assignment_of(0, 2), machine_origin + 1s);
  CHECK(here.began() == machine_origin + 1s);
  CHECK(here.is_leader());
  here.start(1, machine_origin + 1s);
  here.run();
  CHECK_FALSE(told_by(here).succeeded);
  here.workers.end(0);
  here.succeed();
  CHECK(here.is_on());
  const status told = told_by(here);
  CHECK(told.instance == 7);
  CHECK(told.round == 3);
  CHECK(told.service_port == 29500);
  CHECK(told.master_port == 29501);
  CHECK(told.leader_data == leader_data{"ids", "what it is"});
  CHECK_FALSE(told.succeeded);  // the phase says so
  CHECK(here.close_service());
  CHECK_FALSE(here.close_service());
  here.end();
  CHECK(here.has_nothing_on());
  CHECK(told_by(here).succeeded);
  CHECK(told_by(here).service_port == 0);
  CHECK(told_by(here).master_port == 0);
  CHECK(told_by(here).leader_data == leader_data{});
}

TEST_CASE("the member with group rank 0 leads, and is alone if there is no other") {
  local_round here(7, 3, machine_origin);
  SECTION("a member") {
    here.take_assignment(assignment_of(1, 2), machine_origin);
    CHECK_FALSE(here.is_leader());
    here.drop_assignment();
    CHECK_FALSE(here.assignment());
    CHECK(here.group_world_size() == 2);
  }
  SECTION("alone") {
    here.prepare(1);
    CHECK(here.is_alone());
  }
  SECTION("between rounds") {
    CHECK_FALSE(here.is_leader());
    CHECK_FALSE(here.is_alone());
  }
}

TEST_CASE("a round fails once") {
  local_round here(7, 3, machine_origin);
  here.take_assignment(assignment_of(1, 2), machine_origin);
  here.fail(machine_origin + 1s);
  here.fail(machine_origin + 2s);
  CHECK(here.failed_at() == machine_origin + 1s);
  CHECK(here.began() == machine_origin);
}

TEST_CASE("a round that is not entered is said to be stopped, and is not on") {
  local_round here(7, 3);
  CHECK(here.phase() == member_phase::joined);
  here.stay_out();
  CHECK(here.phase() == member_phase::stopped);
  CHECK(here.has_nothing_on());
}

TEST_CASE("a service that failed by itself is not closed again") {
  local_round here(7, 3, machine_origin);
  here.prepare(2);
  here.open_service(29500, 29501, {});
  here.lose_service();
  CHECK_FALSE(here.close_service());
  CHECK(told_by(here).service_port == 0);
}

namespace {

cause exit_with(int code, std::string tail = {}) {
  cause value;
  value.code = code;
  value.tail = std::move(tail);
  return value;
}

}  // namespace

TEST_CASE("the likeliest root cause stands first, and it alone has a tail") {
  local_causes causes;
  CHECK(causes.empty());
  CHECK(causes.add(exit_with(2, "second"), origin + 2s));
  CHECK(causes.add(exit_with(3, "third"), origin + 3s));
  CHECK(causes.add(exit_with(1, "first"), origin + 1s));
  const auto told = causes.tell(1, origin + 10s);
  REQUIRE(told.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(told[i].code == i + 1);
    CHECK(told[i].age == 10s - (i + 1) * 1s);
  }
  CHECK(told[0].tail == "first");
  CHECK(told[1].tail.empty());
  CHECK(told[2].tail.empty());
}

TEST_CASE("of more causes than may be told the least likely go") {
  local_causes causes;
  for (int i = 0; i < static_cast<int>(causes_max); ++i)
    CHECK(causes.add(exit_with(10 + i), origin + i * 1s));
  CHECK_FALSE(causes.add(exit_with(99), origin + 1h));
  CHECK(causes.add(exit_with(1), origin - 1s));
  const auto told = causes.tell(1, origin + 1h);
  REQUIRE(told.size() == causes_max);
  CHECK(told.front().code == 1);
  CHECK(told.back().code == 10 + static_cast<int>(causes_max) - 2);
}

TEST_CASE("a tail is told until a status with it was answered, on each connection") {
  local_causes causes;
  causes.add(exit_with(1, "Traceback"), origin);
  const auto has_tail = [&](std::uint64_t seq) {
    return !causes.tell(seq, origin).front().tail.empty();
  };
  CHECK(has_tail(5));
  causes.acked(4);
  CHECK(has_tail(6));
  causes.acked(5);
  CHECK_FALSE(has_tail(7));
  SECTION("a new connection") {
    causes.connected();
    causes.acked(7);  // says nothing about causes that were not in that status
    CHECK(has_tail(8));
  }
  SECTION("a likelier cause") {
    causes.add(exit_with(2, "another"), origin - 1s);
    CHECK(has_tail(8));
    causes.acked(8);
    CHECK_FALSE(has_tail(9));
  }
}

TEST_CASE("a tail is cut to its end, and never inside of a character") {
  local_causes causes;
  causes.add(exit_with(1, "\xc3\xa4" + std::string(tail_bytes_max - 1, 'x')), origin);
  CHECK(causes.tell(1, origin).front().tail == std::string(tail_bytes_max - 1, 'x'));
}

TEST_CASE("ends that are not clear wait from the first one on, and are taken with their ages") {
  unclear_ends ends;
  CHECK(ends.empty());
  cause first = exit_with(SIGTERM);
  first.age = 2s;
  ends.add(first, clock_at(origin));
  ends.add(exit_with(SIGTERM), clock_at(origin + 50ms));
  CHECK_FALSE(ends.empty());
  CHECK(ends.deadline() == machine_origin + core::own_signal_wait);
  const auto taken = ends.take(origin + 100ms);
  REQUIRE(taken.size() == 2);
  CHECK(taken[0].age == 2100ms);
  CHECK(taken[1].age == 50ms);
  CHECK(ends.empty());
  CHECK(ends.take(origin).empty());
}
