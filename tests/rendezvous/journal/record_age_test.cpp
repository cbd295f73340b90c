#include "rendezvous/journal/record_age.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using journal::host_moment;
using journal::is_too_old;

namespace {

host_moment later(host_moment than, duration by, const std::string& boot) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(by).count();
  const std::int64_t up = boot == than.boot ? than.up + seconds : 60;
  return {boot, up, than.clock + seconds};
}

}  // namespace

TEST_CASE("an open record counts for an hour of the same boot, or as long as nodes may live") {
  const host_moment alive{"one", 5000, 1'000'000};
  core::run_record record;
  record.lost_after = record.gone_after = 10min;
  CHECK_FALSE(is_too_old(record, alive, later(alive, 64min, "one")));
  CHECK(is_too_old(record, alive, later(alive, 66min, "one")));
  record.lost_after = 3h;
  CHECK_FALSE(is_too_old(record, alive, later(alive, 3h, "one")));
  CHECK(is_too_old(record, alive, later(alive, 186min, "one")));
}

TEST_CASE("the time of day may be set within one boot, and nothing follows from it") {
  const host_moment alive{"one", 5000, 1'000'000};
  CHECK_FALSE(is_too_old({}, alive, {"one", 5060, 9'000'000}));
  CHECK(is_too_old({}, alive, {"one", 50'000, 1'000'000}));
}

TEST_CASE("after another boot a record counts only while nodes may live elsewhere") {
  const host_moment alive{"one", 5000, 1'000'000};
  core::run_record record;
  record.lost_after = record.gone_after = 10min;
  CHECK_FALSE(is_too_old(record, alive, later(alive, 14min, "two")));
  CHECK(is_too_old(record, alive, later(alive, 16min, "two")));
  CHECK_FALSE(is_too_old(record, alive, later(alive, 14min, "")));
  record.end = core::run_end{0, "every worker succeeded"};
  CHECK_FALSE(is_too_old(record, alive, later(alive, 64min, "two")));
  CHECK(is_too_old(record, alive, later(alive, 66min, "two")));
}

TEST_CASE("this host has a boot, and a clock that goes on") {
  const host_moment now = journal::host_now();
  CHECK(now.boot.size() == 36);
  CHECK(now.up > 0);
  CHECK(now.clock > 1'700'000'000);
}
