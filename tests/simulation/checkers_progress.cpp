// Progress is kept: no round follows one that succeeded, and no workers are taken down without a
// reason.
#include "tests/simulation/checkers.hpp"
#include "tests/simulation/simulated_agent.hpp"
#include "tests/simulation/simulated_daemon.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <string>

namespace ddprun::simulation {

void checkers::round_stopped(instance_id instance, round_number round, std::uint64_t by) {
  const auto found = instances_.find(instance);
  if (found == instances_.end()) return;
  const auto here = found->second.rounds.find(round);
  if (here == found->second.rounds.end()) return;
  here->second.stopped_by.insert(by);
  here->second.stopped = world_.now();
}

void checkers::success_heard(session_id who, const status& news, std::uint64_t by) {
  const auto found = instances_.find(news.instance);
  if (found == instances_.end()) return;
  const auto here = found->second.rounds.find(news.round);
  if (here == found->second.rounds.end()) return;
  round_record& round = here->second;
  if (round.stopped_by.contains(by) || !round.sessions.contains(who)) return;
  // A daemon that had decided otherwise before it heard of the success may go on.
  if (round.stopped_by.empty()) round.succeeded.insert(who);
  round.success_heard_by.insert(by);
}

void checkers::check_success(const worker_group& group, const instance_record& instance) {
  if (!world_.strict().success_ends || group.owner->went_on_at()) return;
  for (const auto& [number, round] : instance.rounds) {
    const bool knows = round.success_heard_by.contains(group.told_by);
    if (number < group.round && round.succeeded_all() && knows)
      return violated(group, "success: a round follows one that has succeeded");
  }
}

void checkers::order_sent(const daemon& by, const desired& order) {
  if (order.phase == desired_phase::run && order.assignment) {
    auto& heard = instances_[order.instance].heard_at_order;
    const std::pair round(by.index, order.round);
    if (!heard.contains(round)) heard.emplace(round, by.sessions_joined());
  }
  if (!world_.strict().journal || order.instance == 0) return;
  instance_record& instance = instances_[order.instance];
  const std::string which =
      " (daemon " + std::to_string(by.index) + ", round " + std::to_string(order.round) + ")";
  if (order.phase == desired_phase::close) {
    const bool is_over =
        by.has_closed(order.instance) || (instance.closed && instance.closed_by == by.index);
    if (is_over && order.exit_code == 0) instance.told_success = true;
  }
  if (order.phase != desired_phase::run || !order.assignment) return;
  if (order.restarts_used < instance.restarts_told)
    world_.violated("journal: restarts fall from " + std::to_string(instance.restarts_told) +
                    " to " + std::to_string(order.restarts_used) + which);
  instance.restarts_told = std::max(instance.restarts_told, order.restarts_used);
  const auto [given, is_new] = instance.rounds_given.try_emplace(order.round, *order.assignment);
  const assignment& first = given->second;
  if (is_new) return;
  if (first.group_world_size != order.assignment->group_world_size ||
      first.master_port != order.assignment->master_port ||
      first.leader_node != order.assignment->leader_node)
    world_.violated("journal: a number is given to two rounds" + which);
}

void checkers::workers_taken_down(const worker_group& group) {
  if (!group.all_executed || group.succeeded == group.workers.size()) return;
  const duration calm = world_.now() - world_.last_trouble();
  if (calm > world_.trouble_lasts())
    violated(group, "progress: its workers are taken down after " + ddprun::to_text(calm) +
                        " in which nothing went wrong");
}

}  // namespace ddprun::simulation
