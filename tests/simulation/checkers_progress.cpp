// What has gone well stays: no round follows one that succeeded, and nobody takes workers down
// without a reason.
#include "tests/simulation/agent.hpp"
#include "tests/simulation/checkers.hpp"
#include "tests/simulation/world.hpp"

#include <algorithm>
#include <string>

namespace ddprun::simulation {

// ---- success -----------------------------------------------------------------------------------

void checkers::round_stopped(instance_id instance, round_number round, std::uint64_t by) {
  const auto found = instances_.find(instance);
  if (found == instances_.end()) return;
  const auto here = found->second.rounds.find(round);
  if (here != found->second.rounds.end()) here->second.stopped_by.insert(by);
}

void checkers::success_heard(session_id who, const status& news, std::uint64_t by) {
  const auto found = instances_.find(news.instance);
  if (found == instances_.end()) return;
  const auto here = found->second.rounds.find(news.round);
  if (here == found->second.rounds.end()) return;
  round_record& round = here->second;
  if (round.stopped_by.contains(by) || !round.sessions.contains(who)) return;
  round.succeeded.insert(who);
  round.success_heard_by.insert(by);
}

void checkers::check_success(const worker_group& group, const instance_record& instance) {
  if (!world_.strict().success_ends || group.owner->went_on_at()) return;
  for (const auto& [number, round] : instance.rounds) {
    // Where all who succeeded have left, and their daemon has died, a journal must know it.
    const bool knows = world_.strict().journal || round.success_heard_by.contains(group.told_by);
    if (number < group.round && round.succeeded_all() && knows)
      return violated(group, "success: a round follows one that has succeeded");
  }
}

// ---- progress ----------------------------------------------------------------------------------

void checkers::workers_taken_down(const worker_group& group) {
  if (!group.all_executed || group.succeeded == group.workers.size()) return;
  const duration calm = world_.now() - world_.last_trouble();
  if (calm > world_.trouble_lasts())
    violated(group, "progress: its workers are taken down after " + ddprun::to_text(calm) +
                        " in which nothing went wrong");
}

}  // namespace ddprun::simulation
