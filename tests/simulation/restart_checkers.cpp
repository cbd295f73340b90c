#include "tests/simulation/restart_checkers.hpp"

#include "tests/simulation/simulated_agent.hpp"
#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

namespace ddprun::simulation {

using namespace std::chrono_literals;

namespace {

bool has(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

host_id host_of(world& in, const agent& who) {
  return in.agents()[who.index]->where().id;
}

// The run's instance at that daemon; 0: none.
instance_id instance_at(const daemon& by, const std::string& run_id) {
  const core::run* const run = by.run(run_id);
  return run == nullptr ? 0 : run->view({}, 0, 0).instance;
}

}  // namespace

void restart_checkers::violated(const std::string& text) {
  world_.violated(text);
}

// If only workers have failed, no decision depends on a connection.
bool restart_checkers::only_workers_failed() const {
  return world_.faults() == failures_made_;
}

void restart_checkers::order_sent(const daemon& by, const desired& order) {
  if (order.phase == desired_phase::stop) {
    const auto found = instances_.find(order.instance);
    if (found == instances_.end()) return;
    const auto round = found->second.rounds.find(order.round);
    if (round == found->second.rounds.end() || round->second.stopped) return;
    round->second.stopped = world_.now();
  }
  if (order.phase != desired_phase::run || !order.assignment) return;
  instance_seen& instance = instances_[order.instance];
  instance.daemons.insert(by.index);
  const auto [at, is_new] = instance.rounds.try_emplace(order.round);
  if (!is_new) return;
  at->second.ordered = world_.now();
  at->second.restarts_used = order.restarts_used;
  at->second.common = *order.assignment;
}

void restart_checkers::group_started(const worker_group& group) {
  instance_seen& instance = instances_[group.instance];
  if (instance.daemons.size() > 1 || !instance.rounds.contains(group.round)) return;
  round_seen& round = instance.rounds[group.round];
  if (round.members.empty()) check_pause(group, instance);
  round.members.emplace(group.session, group.host);
  check_left_out(group, instance);
  const std::optional<moment>& ill_since = group.owner->ill_since;
  if (ill_since && *ill_since + std::chrono::seconds(2) < round.ordered) ++round.ill;
  if (round.members.size() != round.common.group_world_size) return;
  check_stays(instance, group.round);
  check_health(round);
}

void restart_checkers::worker_failed(const worker_group& group, const cause& why) {
  round_seen& round = instances_[group.instance].rounds[group.round];
  ++round.failed[group.host];
  if (why.is_secondary) round.has_effects = true;
  std::string text = std::string(to_string(why.kind)) + " " + std::to_string(why.code) + " ";
  std::copy_if(why.text.begin(), why.text.end(), std::back_inserter(text),
               [](unsigned char letter) { return std::isdigit(letter) == 0; });
  round.failures.insert(std::move(text));
}

// Quick by any clock, and whether all its workers ran or not.
bool restart_checkers::is_quick(const round_seen& one) const {
  if (!one.stopped) return false;
  const timers& timing = world_.settings().timing;
  const duration lasted = *one.stopped - one.ordered;
  return lasted + lasted / 40 < std::min(timing.startup_window, timing.start_timeout);
}

bool restart_checkers::is_charged(const std::map<round_number, round_seen>& rounds,
                                  round_number one) {
  const auto here = rounds.find(one);
  const auto next = rounds.find(one + 1);
  return here != rounds.end() && next != rounds.end() &&
         next->second.restarts_used > here->second.restarts_used;
}

void restart_checkers::check_pause(const worker_group& group, const instance_seen& instance) {
  std::uint32_t row = 0;
  const round_seen* last = nullptr;
  for (const auto& [number, round] : instance.rounds) {
    if (number >= group.round) break;
    last = &round;
    const bool goes_on = instance.rounds.contains(number + 1);
    // A round that was not even started may have ended the row.
    if (!is_quick(round) || !goes_on) {
      row = 0;
    } else if (is_charged(instance.rounds, number)) {
      ++row;
    }
  }
  if (row < 2 || last == nullptr || !last->stopped) return;
  duration pause = 1s;
  for (std::uint32_t index = 2; index < row && pause < 1h; ++index)
    pause *= 2;
  pause = std::min(pause, world_.settings().timing.backoff_max);
  const duration waited = world_.now() - *last->stopped;
  if (waited + waited / 40 >= pause) return;
  violated("pause: round " + std::to_string(group.round) + " begins " + ddprun::to_text(waited) +
           " after the stop, and " + std::to_string(row) + " in a row have failed quickly");
}

// Texts and codes of two failures may be alike by chance; failures that differ cannot be taken for
// alike.
void restart_checkers::run_closed(const core::run_view& view) {
  const instance_seen& instance = instances_[view.instance];
  if (!has(view.why, "--max-quick-failures") || instance.daemons.size() > 1) return;
  if (instance.has_slow_start) return;
  const std::uint32_t least = world_.settings().quick_failures_max;
  std::uint32_t count = 0;
  bool all_failed = true;
  std::set<std::string> alike;
  for (auto at = instance.rounds.rbegin(); at != instance.rounds.rend() && count < least; ++at) {
    const round_seen& round = at->second;
    if (round.failures.empty()) continue;
    std::uint64_t failed = 0;
    for (const auto& [host, workers] : round.failed)
      failed += workers;
    all_failed = all_failed && failed == round.common.world_size;
    std::set<std::string> both;
    std::set_intersection(alike.begin(), alike.end(), round.failures.begin(), round.failures.end(),
                          std::inserter(both, both.end()));
    alike = count == 0 ? round.failures : both;
    ++count;
  }
  if (count < least) violated("given up: after " + std::to_string(count) + " rounds that failed");
  if (alike.empty() && !all_failed) violated("given up: the last rounds did not fail alike");
}

void restart_checkers::refused(const agent& whom, const daemon& by, const std::string& text) {
  refused_.insert(whom.session());
  const run_settings& settings = whom.greeting().settings;
  if (has(text, " is full: ")) {
    std::set<session_id> others = by.sessions_joined();
    others.erase(whom.session());
    if (others.size() < std::uint64_t{settings.nodes_max} + settings.spares_max)
      violated("refused: as one too many beside " + std::to_string(others.size()));
  }
  if (!has(text, "--max-node-failures")) return;
  instance_seen& instance = instances_[instance_at(by, whom.greeting().run_id)];
  const host_id host = host_of(world_, whom);
  instance.left_out.insert(host);
  const auto failed =
      std::count_if(instance.rounds.begin(), instance.rounds.end(),
                    [&](const auto& each) { return each.second.failed.contains(host); });
  if (instance.has_slow_start) return;
  if (static_cast<std::uint32_t>(failed) < std::max(1U, settings.node_failures_max))
    violated("left out: " + whom.greeting().node + " after its workers failed in " +
             std::to_string(failed) + " rounds");
}

// While a round of enough nodes runs without it, it has to be refused.
void restart_checkers::greeted(const agent& whom, const daemon& by) {
  const bool is_any_left_out =
      std::any_of(instances_.begin(), instances_.end(),
                  [](const auto& each) { return !each.second.left_out.empty(); });
  if (!is_any_left_out || whom.hosted != nullptr || !only_workers_failed()) return;
  const auto found = instances_.find(instance_at(by, whom.greeting().run_id));
  if (found == instances_.end()) return;
  if (!found->second.left_out.contains(host_of(world_, whom))) return;
  if (world_.checks().any_full(world_.settings().nodes_min, whom.greeting().run_id))
    found->second.unwanted.insert(whom.session());
}

void restart_checkers::check_left_out(const worker_group& group, instance_seen& instance) {
  if (only_workers_failed() && instance.unwanted.contains(group.session))
    violated("left out: " + group.owner->greeting().node +
             " was, and is placed again, though others were enough");
  instance.left_out.erase(group.host);
}

// Earlier rounds that were charged and in which only workers of this host failed.
std::uint32_t restart_checkers::surely_first(const instance_seen& instance, host_id host,
                                             round_number before) const {
  std::uint32_t count = 0;
  for (const auto& [number, round] : instance.rounds) {
    const bool is_sure =
        round.failed.size() == 1 && round.failed.begin()->first == host && !round.has_effects;
    if (number < before && is_sure && is_charged(instance.rounds, number)) ++count;
  }
  return count;
}

// A node that had failed too often in the round before takes no part in this one, if enough of its
// nodes were in both.
void restart_checkers::check_stays(const instance_seen& instance, round_number round) {
  const std::uint32_t most = world_.settings().node_failures_max;
  const auto before = instance.rounds.find(round - 1);
  if (most == 0 || !only_workers_failed() || before == instance.rounds.end()) return;
  if (before->second.failed.size() != 1) return;
  const host_id host = before->second.failed.begin()->first;
  std::uint32_t others = 0;
  bool is_in = false;
  for (const auto& [session, where] : instance.rounds.at(round).members) {
    is_in = is_in || where == host;
    if (where != host && before->second.members.contains(session)) ++others;
  }
  const bool failed_now = is_charged(instance.rounds, round - 1) && !before->second.has_effects;
  const std::uint32_t failures = surely_first(instance, host, round);
  if (is_in && failed_now && failures >= most && others >= world_.settings().nodes_min)
    violated("left out: host " + std::to_string(host) + " is not, after " +
             std::to_string(failures) + " first failures, beside " + std::to_string(others) +
             " others");
}

void restart_checkers::check_health(const round_seen& round) {
  const std::uint32_t well = static_cast<std::uint32_t>(round.members.size()) - round.ill;
  if (round.ill == 0 || !only_workers_failed() || well < world_.settings().nodes_min) return;
  violated("health: " + std::to_string(round.ill) + " unhealthy nodes take part beside " +
           std::to_string(well) + " others, which are enough");
}

void restart_checkers::agent_left(const agent& who) {
  if (who.left() && who.left()->exit_code == refused_exit_code && !was_refused(who.session()))
    violated("refused: " + who.greeting().node + " left with 78, and nobody had refused it");
}

}  // namespace ddprun::simulation
