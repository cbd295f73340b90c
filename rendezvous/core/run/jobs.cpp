// Job identity: an instance, and what is left of one, belongs to the job that opened it.
//
// Nodes that leave --rdzv-id out all have one run id, so two jobs may meet at an endpoint, one
// after the other. What the first has left (agents that dial on, a record) is no business of the
// second: it opens an instance of its own, and who comes from the first is told that its place is
// taken. Nodes of one job may differ in arguments. So a node that comes with an instance is known
// by what that was opened with, which it was told; one that comes with none is never refused for
// its own.
#include "rendezvous/core/run/state.hpp"

#include <algorithm>

namespace ddprun::core {

// None: it is not known yet.
const std::optional<started_job>& job_here(const run_options& options, const entered_phase& phase,
                                           const current_instance& current) {
  return current.is_decided() && phase != run_phase::closed ? current.job : options.opened_by;
}

// To one that comes with this instance of that job; empty where its place is not taken.
std::string place_taken_text(const run_options& options, const entered_phase& phase,
                             const current_instance& current, instance_id instance,
                             const std::optional<started_job>& job) {
  const bool is_from_elsewhere = instance != 0 && instance != current.id;
  if (!is_from_elsewhere || is_same_job(job_here(options, phase, current), job)) return {};
  return as_another(job_here(options, phase, current)) +
         " has opened this endpoint, and this one ends; where both are to run at once, give each "
         "its own --rdzv-id";
}

// A daemon that lives in an agent is opened by its job. One that stands alone knows of whom comes
// only what that starts itself, and nodes of one job may differ in arguments: where the script has
// the same name, workers of the job before are waited for, rather than that two rounds live at
// once.
bool may_be_same_job(const run_options& options, const std::optional<started_job>& one,
                     const std::optional<started_job>& other) {
  if (is_same_job(one, other)) return true;
  return !options.opened_by && one->program == other->program;
}

// One that stands alone asks all who came.
bool run::state::is_record_of_another() const {
  const std::optional<started_job>& job = earlier.record()->job;
  if (options.opened_by) return !is_same_job(job, options.opened_by);
  return std::none_of(nodes.begin(), nodes.end(), [&](const auto& one) {
    return may_be_same_job(options, job, one.second->greeting.job);
  });
}

// Of the instance that is on nobody is left, and what comes is none of it.
void run::state::make_way_for(const hello& newcomer) {
  const bool is_deserted = current.is_decided() && phase == run_phase::gathering && nodes.empty();
  if (!is_deserted || newcomer.state.instance != 0) return;
  if (is_same_job(current.job, newcomer.job)) return;
  close(displaced_exit_code, current.last_cause,
        as_another(newcomer.job) + " has opened this endpoint");
}

// Nothing of the job before is waited for.
void run::state::leave_other_job(const std::optional<started_job>& before) {
  note(note_level::info,
       "a new job begins; what " + as_another(before) + " has left no longer counts");
  older.drop_lost();
  closed.forget_living();
  rounds.drop_floor();
}

}  // namespace ddprun::core
