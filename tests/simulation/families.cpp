#include "tests/simulation/families.hpp"

#include "tests/support/effort.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace ddprun::simulation {

using namespace std::chrono_literals;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::uint64_t schedules_wanted() {
  const bool is_whole = tests::is_thorough() || !tests::is_sanitized;
  return number_from("DDPRUN_SIMULATION_SCHEDULES",
                     is_whole ? schedules_default : schedules_sanitized);
}

std::uint64_t scaled(std::uint64_t count, std::uint64_t least) {
  const std::uint64_t wanted = std::min(schedules_wanted(), schedules_default);
  return std::max(least, count * wanted / schedules_default);
}

namespace {

std::string play_one(schedule plan, bool shrunk) {
  if (shrunk) plan = shrink(std::move(plan));
  const outcome result = play(plan, true);
  std::printf("%s%s", result.transcript.c_str(), to_text(plan).c_str());
  return result.violation;
}

}  // namespace

std::string play_family(const std::string& test, std::uint64_t count,
                        const std::function<schedule(std::uint64_t)>& make) {
  if (std::getenv("DDPRUN_SIMULATION_SEED") != nullptr) {
    return play_one(make(number_from("DDPRUN_SIMULATION_SEED", 0)),
                    std::getenv("DDPRUN_SIMULATION_SHRINK") != nullptr);
  }
  const std::uint64_t wanted = std::min(schedules_wanted(), schedules_default);
  // A share of each family, but at least one schedule of each.
  const std::uint64_t share = (count * wanted + schedules_default - 1) / schedules_default;
  const std::uint64_t failures_most = number_from("DDPRUN_SIMULATION_FAILURES", 1);
  const auto began = std::chrono::steady_clock::now();
  std::string report;
  outcome total;
  std::uint64_t played = 0;
  std::uint64_t failures = 0;
  const std::uint64_t first = number_from("DDPRUN_SIMULATION_FIRST", 0);
  const std::uint64_t drawn = share < count ? tests::sample_seed() : 0;
  for (const std::uint64_t index : tests::spread_sample(count, share, drawn)) {
    if (failures == failures_most) break;
    const std::uint64_t seed = first + index;
    const outcome result = play(make(seed));
    ++played;
    total.messages += result.messages;
    total.rounds += result.rounds;
    total.lasted += result.lasted;
    total.overlaps_excused += result.overlaps_excused;
    total.overlaps_unknown += result.overlaps_unknown;
    total.folders_tampered += result.folders_tampered;
    total.until_running = std::max(total.until_running, result.until_running);
    if (result.violation.empty()) continue;
    ++failures;
    report += "--seed=" + std::to_string(seed) + ": " + result.violation +
              "\n    again: DDPRUN_SIMULATION_SEED=" + std::to_string(seed) +
              " simulation_tests \"" + test + "\"\n";
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf(
      "%-44s %7llu schedules in %6.1f s, %5.0f h simulated, %9llu messages, %7llu rounds, "
      "%llu excused overlaps, %llu unknown instances, %llu journals tampered with, slowest "
      "recovery %s\n",
      test.c_str(), static_cast<unsigned long long>(played), seconds,
      std::chrono::duration<double>(total.lasted).count() / 3600,
      static_cast<unsigned long long>(total.messages),
      static_cast<unsigned long long>(total.rounds),
      static_cast<unsigned long long>(total.overlaps_excused),
      static_cast<unsigned long long>(total.overlaps_unknown),
      static_cast<unsigned long long>(total.folders_tampered),
      ddprun::to_text(std::chrono::round<std::chrono::seconds>(total.until_running)).c_str());
  std::fflush(stdout);
  return report;
}

core::agent_said guardians_word(const daemon& heard_by, connection_id which) {
  core::agent_said made;
  made.connection = which;
  made.message = guardian_word{"train", heard_by.session_of(which)};
  return made;
}

mutant with_changed_records(std::function<void(core::run_record&)> change) {
  mutant made;
  made.daemon_effects = [change = std::move(change)](daemon&, const core::daemon_event&,
                                                     core::daemon_effects& effects) {
    for (auto& effect : effects) {
      auto* const asked = std::get_if<core::persist_run_record>(&effect);
      if (asked != nullptr && asked->record) change(*asked->record);
    }
  };
  return made;
}

std::string caught(const mutant& mutation, std::uint64_t count,
                   const std::function<schedule(std::uint64_t)>& make) {
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    schedule plan = make(seed);
    plan.options.mutation = mutation;
    const std::string violation = play(plan).violation;
    if (!violation.empty()) return violation;
  }
  return "nothing";
}

fault fault_of(fault_kind kind, moment at, std::uint32_t host, duration length, int value) {
  fault made;
  made.kind = kind;
  made.at = at;
  made.host = host;
  made.length = length;
  made.value = value;
  return made;
}

void part(schedule& plan, std::uint32_t host, std::uint32_t other, moment from, duration length) {
  fault cut = fault_of(fault_kind::silence, from, host, length);
  cut.other = other;
  plan.faults.push_back(cut);
  std::swap(cut.host, cut.other);
  plan.faults.push_back(cut);
}

schedule quiet_schedule(std::uint64_t seed, std::uint32_t nodes) {
  schedule made;
  made.options.seed = seed;
  made.nodes = nodes;
  run_settings& settings = made.options.settings;
  settings.nodes_min = nodes;
  settings.nodes_max = nodes;
  settings.restarts_max = 20;
  settings.quick_failures_max = 0;  // what fails here fails at once
  timers& timing = settings.timing;
  timing = timers_for(5s);
  timing.heartbeat_interval = 1s;
  timing.isolation_limit = 3s;
  timing.reconnect_grace = 1s;
  timing.stop_grace = 1s;
  timing.drain_grace = 2s;
  timing.kill_wait = 1s;
  timing.start_timeout = 8s;
  timing.backoff_max = 0s;
  timing.join_timeout = 60s;
  timing.last_call_timeout = 500ms;
  timing.settle = 200ms;
  timing.orphan_limit = 20s;
  made.heal_at = 2s;
  return made;
}

schedule embedded_schedule(std::uint64_t seed) {
  schedule made = random_schedule(seed);
  made.embedded = made.options.embeds = true;
  random_source random = random_source(seed).fork(21);
  for (fault& each : made.faults)
    if (random.chance(50)) each.host = 1;
  return made;
}

schedule beside_an_agent(std::uint64_t seed) {
  schedule made = random_schedule(seed);
  made.options.embeds = true;
  made.daemon_on_first_host = true;
  random_source random = random_source(seed).fork(22);
  for (fault& each : made.faults) {
    if (random.chance(40)) each.host = 1;
    if (random.chance(20)) each.kind = fault_kind::kill_daemon;
  }
  return made;
}

schedule with_journal(schedule made, journal_kind kind) {
  made.options.journal = kind;
  made.options.strict.journal = kind == journal_kind::kept;
  return made;
}

}  // namespace ddprun::simulation
