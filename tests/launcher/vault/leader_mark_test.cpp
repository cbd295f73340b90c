#include "launcher/vault/leader_mark.hpp"

#include "launcher/nccl/round_ids.hpp"
#include "rendezvous/core/messages/validation.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("members know from the leader's data whether it has a vault", "[vault]") {
  leader_data nothing;
  CHECK_FALSE(vault::take_mark(nothing));
  leader_data given = vault::with_mark({});
  CHECK(core::problem_of(given).empty());
  CHECK(vault::take_mark(given));
  CHECK(given == leader_data{});
}

TEST_CASE("what else the leader gives is not changed by the mark of its vault", "[vault]") {
  const leader_data ids = to_leader_data({"0cc4", "a2"}, 23007, "10.0.0.1:4711");
  leader_data given = ids;
  CHECK_FALSE(vault::take_mark(given));
  CHECK(given == ids);
  given = vault::with_mark(ids);
  CHECK(core::problem_of(given).empty());
  CHECK(vault::take_mark(given));
  CHECK(given == ids);
}
