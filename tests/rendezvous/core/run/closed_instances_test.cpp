// What is remembered of instances that are over, alone.
#include "rendezvous/core/run/closed_instances.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::origin;

namespace {

session_id session_of(std::uint64_t number) {
  return {0, number};
}

closed_instance instance_of(instance_id number) {
  closed_instance one;
  one.instance = number;
  one.closed_at = origin;
  return one;
}

hello hello_from(std::uint64_t session, instance_id said) {
  hello greeting;
  greeting.session = session_of(session);
  greeting.state.instance = said;
  return greeting;
}

status success_of(round_number round, std::uint32_t group_rank, std::uint32_t size) {
  status said;
  said.round = round;
  said.phase = member_phase::succeeded;
  said.assignment.emplace();
  said.assignment->group_rank = group_rank;
  said.assignment->group_world_size = size;
  return said;
}

}  // namespace

TEST_CASE("a node belongs to the closed instance that it names, or that misses it") {
  closed_instances closed;
  closed_instance one = instance_of(5);
  one.absent.insert(session_of(1));
  closed.add(one);
  closed.add(instance_of(6));
  CHECK(closed.newest().instance == 6);
  CHECK(closed.absent_count() == 1);

  REQUIRE(closed.of(hello_from(9, 5), origin) != nullptr);
  CHECK(closed.of(hello_from(9, 5), origin)->instance == 5);
  REQUIRE(closed.of(hello_from(1, 0), origin) != nullptr);
  CHECK(closed.of(hello_from(1, 0), origin)->instance == 5);
  CHECK(closed.of(hello_from(2, 0), origin) == nullptr);
  CHECK(closed.of(hello_from(1, 7), origin) == nullptr);

  closed.said_goodbye(session_of(1));
  CHECK(closed.of(hello_from(1, 0), origin) == nullptr);
  CHECK(closed.absent_count() == 0);
}

TEST_CASE("a closed instance is remembered for its time, and so many of them") {
  closed_instances closed;
  closed.add(instance_of(5));
  CHECK_FALSE(closed.are_all_old(origin + closed_memory - 1ms));
  CHECK(closed.are_all_old(origin + closed_memory));
  CHECK(closed.of(hello_from(1, 5), origin + closed_memory) == nullptr);
  closed.forget_old(origin + closed_memory - 1ms);
  CHECK(closed.size() == 1);
  closed.forget_old(origin + closed_memory);
  CHECK(closed.empty());

  for (instance_id number = 1; number <= closed_instances_max + 1; ++number)
    closed.add(instance_of(number));
  CHECK(closed.size() == closed_instances_max);
  CHECK(closed.of(hello_from(1, 1), origin) == nullptr);
  CHECK(closed.of(hello_from(1, 2), origin) != nullptr);
}

TEST_CASE("who was left behind may live until it is taken out, or the first lets go") {
  closed_instance one = instance_of(5);
  one.left.sessions = {session_of(1), session_of(2)};
  one.left.until = origin + 600s;
  one.left.is_held = true;
  one.left.let_go_limit = 20s;
  closed_instances closed;
  closed.add(one);
  CHECK(closed.living_until() == origin + 600s);
  CHECK_FALSE(closed.has_let_go(5));

  SECTION("another's word says nothing of them") {
    closed.take_out(session_of(9), 8, true, origin);
    CHECK(closed.living_until() == origin + 600s);
  }
  SECTION("all are known from elsewhere") {
    closed.take_out(session_of(1), 5, false, origin);
    CHECK(closed.living_until() == origin + 600s);
    closed.take_out(session_of(2), 5, false, origin);
    CHECK(closed.living_until() == time_point{});
  }
  SECTION("the first that lets go lets go for all, later ones no further") {
    closed.take_out(session_of(1), 0, true, origin + 10s);
    CHECK(closed.has_let_go(5));
    CHECK(closed.living_until() == origin + 30s);
    closed.take_out(session_of(9), 5, true, origin + 5s);
    CHECK(closed.living_until() == origin + 30s);
  }
}

TEST_CASE("those of whom no session is known may live until their time is over") {
  closed_instance one = instance_of(5);
  one.left.unknown = 1;
  one.left.until = origin + 600s;
  closed_instances closed;
  closed.add(one);
  closed.take_out(session_of(1), 5, false, origin);
  CHECK(closed.living_until() == origin + 600s);
}

TEST_CASE("a round has succeeded when all of its places say so") {
  leftovers left;
  left.round = 4;
  left.succeeded.insert(0);
  CHECK_FALSE(left.complete_success(success_of(3, 1, 2)));
  CHECK_FALSE(left.complete_success(success_of(4, 0, 2)));
  CHECK(left.complete_success(success_of(4, 1, 2)));
  CHECK_FALSE(left.complete_success(success_of(5, 1, 2)));
  CHECK(left.complete_success(success_of(5, 0, 2)));
}
