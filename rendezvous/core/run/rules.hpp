// The rules of a run that need only some of its parts: what each may read, and what it may change
// (a reference that is not const), is in its signature; with an outbox it tells somebody. By source
// file; those that move the run on are functions of run::state.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/run/dead_members.hpp"
#include "rendezvous/core/run/entered_phase.hpp"
#include "rendezvous/core/run/gather.hpp"
#include "rendezvous/core/run/instances.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/outbox.hpp"
#include "rendezvous/core/run/rank_assignment.hpp"
#include "rendezvous/core/run/record.hpp"
#include "rendezvous/core/run/recovery.hpp"
#include "rendezvous/core/run/round.hpp"
#include "rendezvous/core/run/run.hpp"
#include "rendezvous/core/run/stop.hpp"
#include "rendezvous/core/run/waiting.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::core {

// gather.cpp: gather, settle, choose.
void note_changes(current_instance& current, time_point real_now, const std::vector<node*>& from,
                  const rank_assignment& chosen);
void forget_changes(current_instance& current, roster& nodes);
assignment assignment_of(const current_instance& current, const membership& of);
std::vector<node*> left_drained(const roster& nodes);
std::string unhealthy_text(const roster& nodes, const std::set<std::uint64_t>& unhealthy);
std::string health_phrase(const current_instance& current, const roster& nodes,
                          const gathering& groups, const std::set<std::uint64_t>& unhealthy);
void dismiss_unhealthy(roster& nodes, const std::set<std::uint64_t>& unhealthy,
                       const wait_message& notice);
void watch_health(std::set<std::uint64_t>& unhealthy, node& who);
void tell_taken(current_instance& current, outbox& out, const std::string& text);
machine_time gather_until(const entered_phase& phase, const current_instance& current,
                          const stale_workers& older, const closed_instances& closed,
                          const persisted_run& earlier, const timers& timing,
                          const machine_clock& clock);

// doubles.cpp: of the places that people gave their nodes.
struct newcomer {
  const hello& greeting;
  const std::string& peer_address;
  machine_time came;
};
bool may_be_dead(const node& other, const newcomer& who);
bool holds_its_place(const roster& nodes, const node& who);
std::vector<node*> doubles_of(const roster& nodes, const hello& of);
bool replaces_one(const roster& nodes, const hello& of);
std::string id_problem(const current_instance& current, const roster& nodes, machine_time now,
                       const newcomer& who);
std::string rank_problem(const current_instance& current, const roster& nodes, machine_time now,
                         const newcomer& who);

// nodes.cpp: who is here.
void raise_restarts_used(current_instance& current, const node& by);
bool is_audible(const current_instance& current, machine_time now, const node& who);
bool is_able(const node& who);
bool is_fit(const node& who);
bool is_candidate(const roster& nodes, const node& who);
bool is_acked(const recovery_claims& claims, const node& who);
void watch_over(const current_instance& current, roster& nodes, node& who);
std::string status_problem(const round_numbers& rounds, const outbox& out, const status& said,
                           const hello& greeting);
std::string hello_problem(const run_options& options, const round_numbers& rounds,
                          const outbox& out, const hello& greeting, const node* known);

// instances.cpp: whose it is.
const std::optional<started_job>& job_here(const run_options& options, const entered_phase& phase,
                                           const current_instance& current);
std::string place_taken_text(const run_options& options, const entered_phase& phase,
                             const current_instance& current, instance_id instance,
                             const std::optional<started_job>& job);
bool may_be_same_job(const run_options& options, const std::optional<started_job>& one,
                     const std::optional<started_job>& other);

// instances.cpp: instances before this one.
bool completes_success(const entered_phase& phase, current_instance& current,
                       const round_numbers& rounds, const node& who);
time_point older_until(const stale_workers& older, const closed_instances& closed,
                       const persisted_run& earlier, const machine_clock& clock);
bool older_may_live(const current_instance& current, const stale_workers& older,
                    const closed_instances& closed, const persisted_run& earlier,
                    const machine_clock& clock);
timer_moment older_deadline(const current_instance& current, const stale_workers& older,
                            const closed_instances& closed, const persisted_run& earlier,
                            const roster& nodes, const machine_clock& clock);
const leftovers* sole_older(const stale_workers& older, const closed_instances& closed,
                            const machine_clock& clock);
std::string older_reason(const current_instance& current, const stale_workers& older,
                         const closed_instances& closed, const persisted_run& earlier,
                         const roster& nodes, const machine_clock& clock);
void watch_ending(stale_workers& older, wait_message& notice, machine_time now, node& who);
void remember_lost(const entered_phase& phase, const current_instance& current,
                   stale_workers& older, const closed_instances& closed, const machine_clock& clock,
                   const node& who, bool proof);
void remember_leftovers(current_instance& current, const round_numbers& rounds,
                        const round_memberships& memberships, const round_stop& stop,
                        const timers& timing, const machine_clock& clock);
void leave_other_job(stale_workers& older, closed_instances& closed, round_numbers& rounds,
                     outbox& out, const std::optional<started_job>& before);
void hear_of_unable(current_instance& current, wait_message& notice, outbox& out,
                    const agent_joined& event);
bool is_record_of_another(const run_options& options, const persisted_run& earlier,
                          const roster& nodes);
void learn_of_success(const run_options& options, const entered_phase& phase,
                      current_instance& current, closed_instances& closed, outbox& out,
                      closed_instance& record, const status& said);

// record.cpp: what outlives the daemon.
void go_on_from(current_instance& current, round_numbers& rounds, const run_record& record);
std::optional<time_point> persisted_living_until(const machine_clock& clock,
                                                 const persisted_run& earlier);
timer_moment lost_instance_at(const current_instance& current, const persisted_run& earlier,
                              const roster& nodes);
run_record record_of(const run_options& options, const current_instance& current,
                     const round_numbers& rounds, const closed_instances& closed);
void foresee_charge(const current_instance& current, const round_numbers& rounds,
                    time_point real_now, const std::optional<cause>& why, run_record& record);
void note_placed(current_instance& current, const round_memberships& memberships,
                 const timers& timing);
void remember_older(const current_instance& current, const stale_workers& older,
                    const closed_instances& closed, const persisted_run& earlier,
                    const timers& timing, const machine_clock& clock, run_record& record);

// recovery.cpp: claims.
bool is_of_running_instance(const entered_phase& phase, const current_instance& current,
                            const recovery_claims& claims, const node& who);
bool is_recovering(const entered_phase& phase, const recovery_claims& claims);
void remember_claim(recovery_claims& claims, const node& who);
round_number newest_named(const recovery_claims& claims, const std::vector<node*>& claimants);
bool is_outdated_claim(const recovery_claims& claims, const node& who);
bool outdates_found_round(const current_instance& current, const round_numbers& rounds,
                          const recovery_claims& claims, const persisted_run& earlier,
                          const node& who);
settings_group& group_of_most(const std::vector<node*>& claimants);
void place_found(round_memberships& memberships, const std::vector<node*>& claimants);
void take_found_facts(current_instance& current, round_age& age,
                      const std::vector<node*>& claimants);

// restarts.cpp: causes, and what is said of a round.
cause cause_of(const round_numbers& rounds, const node& who, cause_class kind);
void collect_causes(const round_numbers& rounds, root_cause& causes, time_point real_now,
                    const node& who);
void keep_tails(const status& before, status& newest);
bool is_drain(const node& member, const cause& one);
std::optional<cause> final_cause(const round_numbers& rounds, const round_memberships& memberships,
                                 const root_cause& causes, const round_stop& stop,
                                 const machine_clock& clock);
duration lasted_so_far(const entered_phase& phase, const round_age& age, machine_time now);
void add_report(current_instance& current, const round_numbers& rounds,
                const round_memberships& memberships, const dead_members& dead,
                const std::optional<cause>& why);
std::string what_is_next(const current_instance& current, time_point real_now,
                         const std::optional<cause>& charged);
std::string why_it_ends(const std::optional<cause>& why, const std::string& text);
void tell_report(current_instance& current, const roster& nodes, outbox& out, bool is_last,
                 int exit_code, std::string next);
void tell_what_is_next(current_instance& current, const roster& nodes, outbox& out);
void tell_report_again(const current_instance& current, outbox& out, node& who);

// restarts.cpp: what a failure costs.
struct blamed_node {
  session_id session;
  std::string name;   // that lasts
  std::string label;  // in messages
  std::uint32_t failures = 0;
  bool is_left_out = false;  // from now on
};
blamed_node blame(current_instance& current, const round_memberships& memberships,
                  const std::optional<cause>& why);
std::optional<run_end> end_beyond_budget(const current_instance& current, time_point real_now,
                                         const cause& why);
std::optional<run_end> charge(current_instance& current, const roster& nodes, time_point real_now,
                              const std::optional<cause>& why, blamed_node& by);
bool can_do_without(const current_instance& current, const roster& nodes, const blamed_node& one);
std::string why_it_gives_up(const current_instance& current);
std::string quick_row_text(const current_instance& current, const timers& timing);
bool is_short(const entered_phase& phase, const current_instance& current, const gathering& groups);
std::string left_out_text(const run_options& options, const current_instance& current,
                          const std::string& name);
std::string health_advice(const node& who);
std::string left_out_advice(const current_instance& current, const std::string& name);
void end_age(current_instance& current, const round_age& age, machine_time now,
             const timers& timing);
duration pause_before_next(const current_instance& current, settle_timer& choice, machine_time now,
                           const timers& timing, const std::optional<cause>& charged);
std::string leave_out(current_instance& current, outbox& out, const blamed_node& by);
std::string how_it_goes_on(current_instance& current, settle_timer& choice, machine_time now,
                           const timers& timing, outbox& out, const std::optional<cause>& charged,
                           const blamed_node& by);
timer_moment refill_at(const entered_phase& phase, const current_instance& current,
                       const round_age& age, const root_cause& causes, const timers& timing);

// recovery.cpp: those of a found round that have not come back.
// Null: it is not known to be dead.
const dead_node* dead_holder(const dead_members& dead, const current_instance& current,
                             const round_numbers& rounds, const membership& of);
void add_ends_of_missing(const dead_node* who, const current_instance& current,
                         std::vector<ended_ranks>& ends);
cause cause_of_missing(const current_instance& current, const round_numbers& rounds,
                       const dead_members& dead, const membership& of, std::string text);
std::optional<cause> cause_of_not_back(const current_instance& current, const round_numbers& rounds,
                                       const round_memberships& memberships,
                                       const dead_members& dead);
void remember_dead(current_instance& current, time_point real_now, const dead_node& who,
                   const cause& why);

// round.cpp: the round.
std::string whereabouts_of(const round_memberships& memberships, std::uint32_t world_size);
bool is_prepared(const current_instance& current, const round_numbers& rounds,
                 const round_memberships& memberships);
void note_success(round_memberships& memberships, const node& member);
void remember_loss(const entered_phase& phase, settle_timer& choice, machine_time now,
                   const timers& timing);
void hear_stall(const entered_phase& phase, const round_memberships& memberships,
                round_stalls& stalls, machine_time now, const node& who, const status& before);
void hear_restored(const entered_phase& phase, round_memberships& memberships, machine_time now,
                   duration start_timeout, const node& who, const status& before);
void tell_hung(const current_instance& current, const round_numbers& rounds,
               const round_memberships& memberships, outbox& out, std::uint32_t rank,
               const std::string& text);
void on_all_started(const current_instance& current, round_numbers& rounds, round_age& age,
                    wait_message& notice, machine_time now, outbox& out);

// run.cpp: what agents are told, and by which timers.
desired base_desired(const current_instance& current, const round_numbers& rounds, outbox& out,
                     desired_phase what);
message_pointer finished(desired value);
const timers& timing_of(const current_instance& current, const node& member);
bool may_gather(const entered_phase& phase, const recovery_claims& claims, const roster& nodes);
// Nobody is here, and nobody is waited for.
bool is_deserted(const entered_phase& phase, const current_instance& current,
                 const stale_workers& older, const persisted_run& earlier, const roster& nodes,
                 time_point at);

// stop.cpp: its stop, fencing.
timer_moment stop_overdue_at(const entered_phase& phase, const round_memberships& memberships,
                             const round_stop& stop);
bool shows_stop(const current_instance& current, const node& member, const status& said);
void mark_reached(round_memberships& memberships, round_stop& stop, machine_time now,
                  membership& of);
void acknowledge(wait_message& notice, round_memberships& memberships, round_stop& stop,
                 machine_time now, membership& of, const std::vector<tether_age>& acks = {});
bool is_stop_over(const current_instance& current, const round_memberships& memberships,
                  const round_stop& stop, const timers& timing, machine_time now);
std::optional<machine_time> fence_until(const round_memberships& memberships,
                                        const round_stop& stop, const timers& timing);
void remember_departure(const entered_phase& phase, current_instance& current, wait_message& notice,
                        time_point real_now, const node& who, const cause& why);

// view.cpp: what people are told.
std::string here_text(const roster& nodes, const gathering& groups);
std::string missing_ranks(const roster& nodes, const settings_group& group);
member_view member_seen(const round_memberships& memberships, const node& who, machine_time at);
std::string stopping_reason(const current_instance& current, const round_numbers& rounds,
                            const round_memberships& memberships, const round_stop& stop,
                            const timers& timing);

// waiting.cpp: what those who wait are told.
bool is_missed(const entered_phase& phase, const gathering& groups, const settle_timer& choice,
               machine_time now);
std::string spare_advice(const current_instance& current, const round_memberships& memberships);
std::string names_in(const roster& nodes, const settings_group& group);
std::string disagreement(const run_options& options, const roster& nodes, const settings_group& one,
                         const settings_group& other);
std::string full_text(const current_instance& current, const std::optional<started_job>& newcomer);
std::string different_scripts(const run_options& options, const roster& nodes);
std::string twins(const current_instance& current, const roster& nodes, machine_time now);
std::string neighbour_text(const neighbour_seen& neighbour);
std::string misfits(const run_options& options, const current_instance& current,
                    const roster& nodes, machine_time now);

}  // namespace ddprun::core
