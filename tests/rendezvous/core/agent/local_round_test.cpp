#include "rendezvous/core/agent/local_round.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::local_round;
using ddprun::tests::machine_origin;

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
