// Who is here for the next round, alone: groups of settings and their last calls.
#include "rendezvous/core/run/gathering.hpp"

#include "rendezvous/core/run/node.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;

namespace {

struct fake_group {
  run_settings settings;
  std::list<node> nodes;

  fake_group(std::uint32_t least, std::uint32_t most) {
    settings.nodes_min = least;
    settings.nodes_max = most;
    settings.timing.last_call_timeout = 30s;
    settings.timing.join_timeout = 600s;
  }

  node& come(gathering& to) {
    node& who = nodes.emplace_back();
    who.greeting.settings = settings;
    to.join(who);
    to.count(who, true);
    return who;
  }
};

void go(gathering& from, node& who) {
  from.count(who, false);
  from.leave(who);
}

}  // namespace

TEST_CASE("a group with the most nodes is ready at once") {
  gathering groups;
  fake_group pair(1, 2);
  pair.come(groups);
  CHECK(groups.ready(machine_origin, machine_origin) == nullptr);
  pair.come(groups);
  REQUIRE(groups.ready(machine_origin, machine_origin) != nullptr);
  CHECK(groups.ready(machine_origin, machine_origin)->here() == 2);
  CHECK(groups.here() == 2);
}

TEST_CASE("the last call begins with the least nodes, and anew only at a new highest number") {
  gathering groups;
  fake_group trio(2, 4);
  trio.come(groups);
  CHECK(groups.ready(machine_origin, machine_origin) == nullptr);
  CHECK_FALSE(groups.deadline(machine_origin));
  node& second = trio.come(groups);
  CHECK(groups.ready(machine_origin, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin) == machine_origin + 30s);

  go(groups, second);
  CHECK(groups.ready(machine_origin + 10s, machine_origin) == nullptr);
  CHECK_FALSE(groups.deadline(machine_origin + 10s));
  trio.come(groups);
  CHECK(groups.ready(machine_origin + 10s, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin + 10s) == machine_origin + 30s);
  trio.come(groups);
  CHECK(groups.ready(machine_origin + 20s, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin + 20s) == machine_origin + 50s);
  CHECK(groups.ready(machine_origin + 50s, machine_origin) != nullptr);
  CHECK_FALSE(groups.deadline(machine_origin + 50s));

  groups.begin_anew();
  CHECK(groups.ready(machine_origin + 50s, machine_origin + 50s) == nullptr);
  CHECK(groups.deadline(machine_origin + 50s) == machine_origin + 80s);
}

TEST_CASE("the last call ends when joining does") {
  gathering groups;
  fake_group pair(1, 2);
  pair.come(groups);
  CHECK(groups.ready(machine_origin + 590s, machine_origin) == nullptr);
  CHECK(groups.deadline(machine_origin + 590s) == machine_origin + 600s);
}

TEST_CASE("of the groups that are ready the largest is taken; one without nodes is forgotten") {
  gathering groups;
  fake_group alone(1, 1);
  fake_group pair(2, 2);
  node& one = alone.come(groups);
  pair.come(groups);
  pair.come(groups);
  CHECK(groups.size() == 2);
  REQUIRE(groups.ready(machine_origin, machine_origin) != nullptr);
  CHECK(groups.ready(machine_origin, machine_origin)->settings() == pair.settings);
  go(groups, one);
  CHECK(groups.size() == 1);
  CHECK(one.group == nullptr);
}

TEST_CASE("who is here and no candidate is of its group and not counted") {
  gathering groups;
  fake_group pair(1, 2);
  node& one = pair.come(groups);
  CHECK_FALSE(groups.count(one, true));
  CHECK(groups.count(one, false));
  CHECK(groups.here() == 0);
  CHECK(groups.size() == 1);
  node stranger;
  CHECK_FALSE(groups.count(stranger, true));
  CHECK_FALSE(stranger.counted);
}

TEST_CASE("a group that was fixed stays, alone, until it is not fixed any longer") {
  gathering groups;
  fake_group pair(1, 2);
  fake_group other(1, 1);
  node& one = pair.come(groups);
  node& differs = other.come(groups);
  groups.fix(*one.group);
  go(groups, differs);
  groups.forget_others();
  CHECK(groups.size() == 1);
  go(groups, one);
  CHECK(groups.size() == 1);
  groups.unfix();
  CHECK(groups.empty());
}
