// What an earlier daemon has kept of an open instance, alone.
#include "rendezvous/core/run/persisted_run.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/origin.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;
using ddprun::tests::machine_origin;

namespace {

run_record record_of_three() {
  run_record record;
  record.instance = 17;
  record.nodes = 3;
  record.gone_after = 20s;
  record.lost_after = 60s;
  return record;
}

}  // namespace

TEST_CASE("nothing is remembered unless a record was there, or when it has been dropped") {
  persisted_run earlier;
  CHECK_FALSE(earlier.is_there());
  CHECK_FALSE(earlier.is_of(17));
  CHECK(earlier.living_until(0) == std::nullopt);
  earlier.begin(record_of_three(), machine_origin);
  CHECK(earlier.is_there());
  CHECK(earlier.is_of(17));
  CHECK_FALSE(earlier.is_of(18));
  earlier.drop();
  CHECK_FALSE(earlier.is_there());
}

TEST_CASE("workers may live until all nodes are here again, or for so long") {
  persisted_run earlier;
  earlier.begin(record_of_three(), machine_origin);
  CHECK(earlier.living_until(2) == machine_origin + 20s);
  CHECK(earlier.living_until(3) == std::nullopt);
  CHECK(earlier.lost_at() == machine_origin + 60s);
}
