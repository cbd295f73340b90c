#include "launcher/hosts/ssh/host_roster.hpp"

#include "tests/support/catch.hpp"

#include <set>

using namespace ddprun;
using namespace ddprun::launcher::ssh;
using namespace std::chrono_literals;

namespace {

using numbers = std::vector<std::size_t>;

const time_point moment = time_point() + 1h;

std::vector<host> list_of(const std::string& text) {
  auto hosts = read_hostfile("list", text);
  REQUIRE(hosts.has_value());
  return *hosts;
}

}  // namespace

TEST_CASE("a host keeps its number, also while it is away") {
  host_roster roster(7, false);
  std::vector<host> known;
  CHECK(roster.take(known, list_of("a:2\nb")).come == numbers{0, 1});
  CHECK(roster.take(known, list_of("b:1\na:2")).is_none());
  const auto changed = roster.take(known, list_of("c\nb:4"));
  CHECK(changed.come == numbers{2});
  CHECK(changed.gone == numbers{0});
  CHECK(changed.resized == numbers{1});
  CHECK(known[1].slots == 4);
  CHECK_FALSE(roster.is_listed(0));
  CHECK(roster.take(known, list_of("a:3\nb:4\nc")).come == numbers{0});
  CHECK(known[0].slots == 3);
  CHECK(known.size() == 3);
}

TEST_CASE("a host rests longer with each failure, and never for more than five minutes") {
  host_roster roster(7, false);
  std::vector<host> known;
  roster.take(known, list_of("a"));
  duration whole = first_rest;
  for (std::uint32_t failures = 1; failures < 40; ++failures) {
    const duration rest = roster.failed(0, 1s, moment);
    CHECK(roster.failures(0) == failures);
    CHECK(rest >= whole / 2);
    CHECK(rest <= whole);
    whole = std::min<duration>(2 * whole, rest_max);
  }
  CHECK(whole == rest_max);
}

TEST_CASE("a host that ran for long has failed for the first time") {
  host_roster roster(7, false);
  std::vector<host> known;
  roster.take(known, list_of("a"));
  for (int failures = 0; failures < 5; ++failures)
    roster.failed(0, 0s, moment);
  CHECK(roster.failed(0, rest_max, moment) <= first_rest);
  CHECK(roster.failures(0) == 1);
}

TEST_CASE("a host that leaves the list and comes back still rests, and has failed as often") {
  host_roster roster(7, false);
  std::vector<host> known;
  roster.take(known, list_of("a\nb"));
  CHECK(roster.rests_until(0) < moment);
  duration rest{};
  for (int failures = 0; failures < 5; ++failures)
    rest = roster.failed(0, 0s, moment);
  roster.take(known, list_of("b"));
  CHECK(roster.take(known, list_of("a\nb")).come == numbers{0});
  CHECK(roster.rests_until(0) == moment + rest);
  CHECK(roster.rests_until(1) < moment);
  CHECK(roster.failed(0, 0s, moment) > rest / 2);
  CHECK(roster.failures(0) == 6);
}

TEST_CASE("hosts that fail together do not come back together") {
  host_roster roster(7, false);
  std::vector<host> known;
  std::string text;
  for (int number = 0; number < 32; ++number)
    text += "n" + std::to_string(number) + "\n";
  roster.take(known, list_of(text));
  std::set<duration> rests;
  for (std::size_t number = 0; number < 32; ++number)
    rests.insert(roster.failed(number, 0s, moment));
  CHECK(rests.size() > 20);
}

TEST_CASE("a host that is set aside may run again when it has been away") {
  host_roster roster(7, false);
  std::vector<host> known;
  roster.take(known, list_of("a\nb"));
  roster.set_aside(0);
  CHECK_FALSE(roster.may_run(0));
  roster.take(known, list_of("a\nb"));
  CHECK_FALSE(roster.may_run(0));
  roster.take(known, list_of("b"));
  CHECK_FALSE(roster.may_run(0));
  roster.take(known, list_of("a\nb"));
  CHECK(roster.may_run(0));
}

TEST_CASE("where another number stands for hosts without one, 1 is a change") {
  host_roster roster(7, true);
  std::vector<host> known;
  roster.take(known, list_of("a"));
  CHECK(roster.take(known, list_of("a")).is_none());
  CHECK(roster.take(known, list_of("a:1")).resized == numbers{0});
}
