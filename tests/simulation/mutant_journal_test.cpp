// Mutants like those in mutant_test.cpp, of what a journal keeps and of what waits for it.
#include "tests/simulation/families.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::StartsWith;

// While `when` holds, the machine is told that its records are persisted as soon as it asks for
// that.
mutant kept_at_once(std::function<bool(const daemon&)> when) {
  mutant made;
  made.daemon_effects = [when](daemon& by, const core::daemon_event&,
                               core::daemon_effects& effects) {
    // These effects may ask for more.
    for (std::size_t index = 0; index < effects.size(); ++index) {
      const auto* const asked = std::get_if<core::persist_run_record>(&effects[index]);
      if (asked == nullptr || !when(by)) continue;
      const std::uint64_t number = asked->number;
      by.step_unchanged(core::records_persisted{number}, effects);
    }
  };
  return made;
}

bool always(const daemon&) {
  return true;
}

schedule slow_disk(std::uint64_t seed, std::uint32_t nodes) {
  schedule made = with_journal(quiet_schedule(seed, nodes), journal_kind::kept);
  made.options.slow_disk_percent = 100;
  return made;
}

// Two rounds, the first of which was charged; then all die, and are started again.
schedule failure_and_end(std::uint64_t seed) {
  schedule made = slow_disk(seed, 3);
  random_source random = random_source(seed).fork(81);
  made.options.habits.collateral_most = 10ms;
  made.options.habits.stop_most = 10ms;
  const moment fails = 2s + random.between(0ms, 1s);
  made.faults.push_back(fault_of(fault_kind::fail_worker, fails, 1));
  made.faults.push_back(
      fault_of(fault_kind::kill_all, fails + random.between(20ms, 600ms), 0, 500ms));
  made.heal_at = 8s;
  return made;
}

schedule calm_end(std::uint64_t seed) {
  schedule made = slow_disk(seed, 3);
  made.faults.push_back(fault_of(fault_kind::fail_worker, 2s, 1));
  made.faults.push_back(fault_of(fault_kind::kill_all, 8s, 0, 500ms));
  made.heal_at = 10s;
  return made;
}

// The daemon dies when a round runs, or is about to. Its members cannot reach the next daemon for a
// while, but another node can.
schedule newcomer_first(std::uint64_t seed) {
  schedule made = slow_disk(seed, 2);
  random_source random = random_source(seed).fork(82);
  made.options.settings.nodes_min = 1;
  made.options.settings.timing.last_call_timeout = 0ms;
  const moment dies = random.between(200ms, 900ms);
  made.faults.push_back(fault_of(fault_kind::kill_daemon, dies, 0, 1ms));
  for (std::uint32_t host = 1; host <= 2; ++host) {
    part(made, host, 0, dies, 2s);
  }
  made.faults.push_back(fault_of(fault_kind::join, dies + 50ms, 0));
  made.heal_at = dies + 3s;
  return made;
}

// All die when the first of them is told of the end, and the same commands are started again.
std::string ended_and_again(const mutant& mutation, std::uint64_t seed) {
  schedule plan = slow_disk(seed, 3);
  plan.options.mutation = mutation;
  world in(plan.options);
  host& of_daemon = in.add_host();
  in.start_daemon(of_daemon);
  for (int index = 0; index < 3; ++index)
    in.start_agent(in.add_host());
  if (!in.run_until_true([&] { return in.checks().any_full(3); }, 10s)) return "no round";
  bool is_told = false;
  in.on_sent = [&](const connection&, int, const parcel& message) {
    const auto* const word =
        std::get_if<std::shared_ptr<const daemon_message>>(message.content.get());
    const auto* const order = word == nullptr ? nullptr : std::get_if<desired>(word->get());
    if (is_told || order == nullptr || order->phase != desired_phase::close) return;
    is_told = true;
    in.time().after(10ms, [&] {
      in.kill_daemon();
      for (const auto& each : in.agents())
        in.kill_agent(*each);
    });
  };
  in.finish_training();
  if (!in.run_until_true([&] { return is_told; }, 20s)) return "nobody was told of the end";
  in.run_for(2s);
  in.start_daemon(of_daemon);
  for (host_id on = 1; on <= 3; ++on)
    in.start_agent(in.host_at(on));
  if (!in.run_until_true([&] { return in.checks().any_full(3); }, 20s) && !in.over())
    return "no round of a new instance";
  return in.violation();
}

std::string caught_at_the_end(const mutant& mutation, std::uint64_t count) {
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const std::string violation = ended_and_again(mutation, seed);
    if (!violation.empty()) return violation;
  }
  return "nothing";
}

}  // namespace

TEST_CASE("mutant: a record counts as persisted before it is") {
  mutant hasty;
  hasty.journal_reports_early = true;
  REQUIRE_THAT(caught(hasty, 100, failure_and_end), StartsWith("journal: restarts fall"));
  REQUIRE_THAT(caught(hasty, 300, newcomer_first), StartsWith("overlap:"));
  REQUIRE(caught({}, scaled(100), failure_and_end) == "nothing");
  REQUIRE(caught({}, scaled(300), newcomer_first) == "nothing");
}

TEST_CASE("mutant: an assignment does not wait for its record") {
  REQUIRE_THAT(caught(kept_at_once(always), 100, failure_and_end),
               StartsWith("journal: restarts fall"));
  REQUIRE_THAT(caught(kept_at_once(always), 300, newcomer_first), StartsWith("overlap:"));
}

TEST_CASE("mutant: no daemon gets what was persisted") {
  mutant forgetful;
  forgetful.journal_is_ignored = true;
  REQUIRE_THAT(caught(forgetful, 300, newcomer_first), StartsWith("overlap:"));
}

TEST_CASE("mutant: a block of numbers is not persisted") {
  const mutant short_by_a_block = with_changed_records([](core::run_record& record) {
    record.rounds_reserved -= std::min<round_number>(record.rounds_reserved, 16);
  });
  REQUIRE_THAT(caught(short_by_a_block, 10, calm_end),
               StartsWith("journal: a number is given to two rounds"));
  REQUIRE(caught({}, 10, calm_end) == "nothing");
}

TEST_CASE("mutant: a charge is not persisted") {
  const mutant generous =
      with_changed_records([](core::run_record& record) { record.restarts_used = 0; });
  REQUIRE_THAT(caught(generous, 10, calm_end), StartsWith("journal: restarts fall"));
}

TEST_CASE("mutant: an end is announced before it is persisted") {
  const mutant early = kept_at_once(
      [](const daemon& by) { return by.run() && by.run()->phase() == run_phase::closed; });
  REQUIRE_THAT(caught_at_the_end(early, 20),
               StartsWith("journal: workers started in an instance that is over"));
  REQUIRE(caught_at_the_end({}, 20) == "nothing");
}

TEST_CASE("mutant: how an instance ended is not persisted") {
  const mutant endless = with_changed_records([](core::run_record& record) {
    record.end.reset();
    record.lost_after = 20s;
  });
  REQUIRE_THAT(caught_at_the_end(endless, 10),
               StartsWith("journal: workers started in an instance that is over"));
}

}  // namespace ddprun::simulation
