// What was asked for to be kept, alone.
#include "rendezvous/core/run/record_persistence.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;

TEST_CASE("a record is asked for once, and kept when its number or a later one is") {
  run_record first;
  first.instance = 5;
  run_record second = first;
  second.restarts_used = 1;

  record_persistence records;
  CHECK(records.is_kept(std::nullopt));
  CHECK(records.ask(first) == 1U);
  CHECK_FALSE(records.ask(first));
  CHECK_FALSE(records.is_kept(first));
  CHECK(records.ask(second) == 2U);
  records.set_persisted(1);
  CHECK_FALSE(records.is_kept(second));
  records.set_persisted(2);
  records.set_persisted(1);
  CHECK(records.is_kept(second));
  CHECK_FALSE(records.is_kept(first));
  CHECK(records.ask(std::nullopt) == 3U);
  CHECK_FALSE(records.is_kept(std::nullopt));
}

TEST_CASE("what an earlier daemon has kept is kept") {
  run_record record;
  record.instance = 5;
  record_persistence records;
  records.begin_with(record);
  CHECK(records.is_kept(record));
  CHECK_FALSE(records.ask(record));
}
