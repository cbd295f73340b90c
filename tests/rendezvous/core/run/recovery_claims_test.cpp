// What is waited for when nodes come with an unknown instance, alone.
#include "rendezvous/core/run/recovery_claims.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;

TEST_CASE("others are waited for until a moment") {
  recovery_claims claims;
  CHECK_FALSE(claims.is_waiting());
  claims.wait_until(machine_origin + 10s);
  claims.end_wait_if_over(machine_origin + 9s);
  CHECK(claims.until() == machine_origin + 10s);
  claims.end_wait_if_over(machine_origin + 10s);
  CHECK_FALSE(claims.is_waiting());
}

TEST_CASE("the newest round that anybody of an instance has named counts") {
  recovery_claims claims;
  claims.add(1, 5);
  claims.add(1, 4);
  claims.add(2, 9);
  CHECK(claims.newest_of(1, 0) == 5);
  CHECK(claims.newest_of(1, 6) == 6);
  CHECK(claims.newest_of(2, 0) == 9);
  CHECK(claims.newest_of(3, 7) == 7);
}

TEST_CASE("instances without end are not remembered without end") {
  recovery_claims claims;
  for (instance_id one = 1; one <= 2 * newest_claims_max; ++one)
    claims.add(one, 3);
  CHECK(claims.newest_of(newest_claims_max, 0) == 3);
  CHECK(claims.newest_of(newest_claims_max + 1, 0) == 0);
  claims.add(1, 4);
  CHECK(claims.newest_of(1, 0) == 4);
}

TEST_CASE("the time begins anew for so many claimants only, also when an instance was taken") {
  recovery_claims claims;
  for (std::uint32_t count = 0; count < windows_reopened_max; ++count) {
    CHECK(claims.may_reopen());
    claims.reopen(machine_origin + 1s);
    claims.add(1, 2);
    claims.settle();
    CHECK_FALSE(claims.is_waiting());
    CHECK(claims.newest_of(1, 0) == 0);
  }
  CHECK_FALSE(claims.may_reopen());
}
