// The state of a run, and the rules that move the run on, by source file. Values with a lifetime or
// an invariant of their own form parts (DESIGN.md). A rule that needs only some parts is a free
// function in the header of its subject: its signature shows what it reads and what it may change
// (references that are not const); if it takes the outbox, it tells somebody. Included by this
// folder only.
//
//   subject      what it decides: rules of DESIGN.md             its parts
//   nodes        who is here, and who gets acks                  roster
//   gather       1, 7: when a round is chosen; 13, 14: reserves  gathering, settle_timer
//   choose       2: members, ranks, master address
//   round        3, 4, 8, 10, 15: from the start to the end      round_memberships, round_age,
//                                                                round_whereabouts, round_stalls
//   stop         4: the way down; liveness and fencing           round_stop
//   restarts     5, 6, 11, 12, 13: what an end costs, and what   restart_budget, quick_failures,
//                follows                                         node_failures
//   instances    9: how an instance ends; older workers; whose   current_instance, stale_workers,
//                job it is                                       closed_instances
//   recovery     what a new daemon learns from agents            recovery_claims, dead_members
//   record       what outlives the daemon                        persisted_run, record_persistence,
//                                                                round_numbers
//   waiting      1: what waiting nodes are told                  wait_message, departures
//   view         what people are shown
//   run_machine  which rule an event goes to, and the timers     entered_phase, outbox (below)
//
// Time: conditions ("max nodes are here") are judged after every event. Timeouts (an agent is lost,
// a round did not start in time) are judged at `time_passed` only, because the caller steps all
// input that has arrived first: a message that waits in a socket counts (DESIGN.md).
//
// Cost: O(log n) per status. Liveness entries are checked when they fire and moved then, so a
// heartbeat touches none of them; the liveness of members is counted, never scanned. Only what
// happens once a round (choosing, sending a stop) takes O(n log n) or O(n).
#pragma once

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/run/choose.hpp"
#include "rendezvous/core/run/gather.hpp"
#include "rendezvous/core/run/instances.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/record.hpp"
#include "rendezvous/core/run/recovery.hpp"
#include "rendezvous/core/run/round.hpp"
#include "rendezvous/core/run/run_machine.hpp"
#include "rendezvous/core/run/stop.hpp"
#include "rendezvous/core/run/view.hpp"
#include "rendezvous/core/run/waiting.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace ddprun::core {

// The phase of a run, when it was entered, and what lasts as long: what is watched while a round
// runs.
class entered_phase {
 public:
  // Implicit, because nearly every rule reads the phase.
  operator run_phase() const { return phase_; }  // NOLINT(google-explicit-constructor)
  machine_time since() const { return since_; }

  void enter(run_phase next, machine_time at) {
    *this = {};
    phase_ = next;
    since_ = at;
  }

  const failure_grace& cause_grace() const { return cause_grace_; }
  failure_grace& cause_grace() { return cause_grace_; }
  const round_stalls& stalls() const { return stalls_; }
  round_stalls& stalls() { return stalls_; }

 private:
  run_phase phase_ = run_phase::gathering;
  machine_time since_{};
  failure_grace cause_grace_;
  round_stalls stalls_;
};

// Collects the effects of one step of a run, in order, and numbers the states that agents are told.
//
// Ownership: the effects belong to the caller; they are borrowed for one step.
class outbox {
 public:
  explicit outbox(std::uint64_t epoch = 0) : epoch_(epoch) {}

  void begin_step(run_effects& effects) { effects_ = &effects; }
  void end_step() { effects_ = nullptr; }

  void note(note_level level, std::string text) {
    effects_->push_back(run_note{level, std::move(text)});
  }
  // A warning that anyone who reaches the port can cause, so its rate is limited.
  void note_refusal(std::string text) {
    effects_->push_back(run_note{note_level::warning, std::move(text), true});
  }
  void send(const node& to, message_pointer message) {
    if (to.connection != 0) effects_->push_back(send_to_agent{to.connection, std::move(message)});
  }
  // Sets what the node should do from now on, also after a reconnect. Null: nothing.
  void want(node& of, message_pointer message) {
    of.wanted = std::move(message);
    of.wanted_seq = of.wanted ? std::get<desired>(*of.wanted).seq : 0;
    of.notice_seen = 0;
    send(of, of.wanted);
  }
  void disconnect(connection_id connection) {
    effects_->emplace_back(disconnect_agent{connection});
  }
  // Refuses a connection that has not become a node.
  void refuse(connection_id connection, const std::string& node, std::string text, int exit_code) {
    note_refusal("refused " + node + ": " + text);
    // Made in place: g++ 12 at -O2 takes a moved temporary of the variant for uninitialised.
    effects_->emplace_back(send_to_agent{
        connection, std::make_shared<const daemon_message>(refused{exit_code, std::move(text)})});
    disconnect(connection);
  }
  void persist(std::uint64_t revision, std::optional<run_record> record) {
    effects_->push_back(persist_record{revision, std::move(record)});
  }

  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t seq() const { return seq_; }  // of the newest state that was sent
  std::uint64_t next_seq() { return ++seq_; }
  // An earlier daemon may have counted further than this one. A number that no daemon can reach is
  // a lie, and is ignored: counting on from it would give numbers that JSON readers cannot hold.
  void raise_seq(std::uint64_t said) {
    if (said <= count_said_max) seq_ = std::max(seq_, said);
  }

 private:
  run_effects* effects_ = nullptr;  // of the current step
  std::uint64_t epoch_;
  std::uint64_t seq_ = 0;
};

// What agents are told, and by which timers: run_machine.cpp.
desired base_desired(const current_instance& current, const round_numbers& rounds, outbox& out,
                     desired_phase what);
message_pointer finished(desired value);
const timers& timing_of(const current_instance& current, const node& member);
// The run's; before the first round those of the first group.
const timers& timing_of(const current_instance& current, const gathering& groups);
void enter(entered_phase& phase, wait_message& waiting, machine_time now, run_phase next);
bool may_gather(const entered_phase& phase, const recovery_claims& claims, const roster& nodes);
// No node is here, and none is waited for.
bool is_deserted(const entered_phase& phase, const current_instance& current,
                 const stale_workers& stale, const persisted_run& persisted, const roster& nodes,
                 time_point at);

// How a round ends: see run::state::end_round.
struct end_kind {
  bool is_free = false;      // nothing is charged, whatever the members report
  bool is_ordinary = false;  // unless a rank is lost, all only have to be asked to end
};

struct run::state {
  run_options options;
  machine_clock clock;
  machine_time now{};     // of the step under way
  time_point real_now{};  // the same in real time
  outbox out;
  std::uint64_t steps = 0;  // number of steps so far, for "has spoken since"

  // The run, and its current instance.
  entered_phase phase;
  current_instance current;
  round_numbers rounds;
  closed_instances closed;

  // What was before: instances that returning nodes claim, workers that may still live, what an
  // earlier daemon persisted.
  recovery_claims claims;
  stale_workers stale;
  persisted_run persisted;
  record_persistence records;

  // Agents.
  roster nodes;
  gathering groups;
  wait_message waiting;

  // The round.
  round_memberships memberships;
  round_whereabouts whereabouts;  // also those of the last round
  round_age age;
  root_cause causes;

  dead_members dead;  // members of an earlier daemon's rounds

  // From the end of a round to the next.
  round_stop stop;  // of the round that was stopped last
  settle_timer settle;

  // run_machine.cpp: events and time.
  void handle(const agent_joined& event);
  void handle(const status_received& event);
  void handle(const goodbye_received& event);
  void handle(const agent_disconnected& event);
  void handle(const guardian_reported& event);
  void handle(const operator_stop_requested& event);
  void handle(const neighbour_seen& event);
  void handle(const record_persisted& event);
  void handle(const time_passed& event);
  void handle(const loop_was_late& event);
  void set_time(time_point real);
  static std::span<const machine_timer<state>> timer_table();
  void progress();
  headcount counts();

  // nodes.cpp: who is here.
  void attach(node& who, const agent_joined& event);
  void recognise(node& who);
  void queue_for_round(node& who);
  void on_idle_status(node& who);

  // waiting.cpp: what waiting nodes are told.
  void tell_wait(node& who);

  // gather.cpp: rules 1, 7, 13 and 14.
  void check_gathering();
  void begin_gathering();
  void begin_settling();

  // choose.cpp: rule 2.
  void choose();
  bool let_drained_go();
  bool start_round(settings_group& group);

  // round.cpp: rules 3, 4, 8 and 15.
  void on_member_status(node& who, const status& before);
  void on_progress(node& who);
  void assign_if_prepared();
  void assign_all();
  void join_restarts(const node& who);
  void on_start_timeout();
  void on_unasked_end(node& who);
  bool waits_for_cause();
  void on_failure_grace_over();
  void look_at_stalls();

  // stop.cpp: rules 4 and 6, liveness and fencing.
  void end_round(const cause* trigger, duration grace, std::string text, end_kind how = {});
  void on_stop_status(node& who);
  void on_stop_overdue();
  void end_of_stop();
  void leave_round();
  void check_liveness();
  void lose(node& who, bool proof, const std::string& how, bool has_left = false);
  void mark_ended(membership& of);
  void mark_unreachable(membership& of);
  void tell_if_only_unreachable_are_left();

  // restarts.cpp: rules 6, 12 and 13.
  void refill_budget();

  // recovery.cpp: claims, how they are decided, and members that have not come back.
  void claim(node& who);
  void claim_anew(node& who);
  void give_way();
  bool decide_on_claims(bool window_is_over);
  void adopt(instance_id which, const std::vector<node*>& claimants);
  void adopt_round(const std::vector<node*>& claimants);
  void end_found_round(const std::vector<node*>& claimants);
  void end_unseen_round(const std::vector<node*>& claimants);
  void end_found_success(const std::vector<node*>& claimants);
  bool fill_gap(node& who);
  void hear_of_dead(const guardian_reported& event);

  // instances.cpp: rule 9, drain and operator; job identity; what may live of older instances.
  void tell_closed(node& who, closed_instance& record);
  void close(int exit_code, std::optional<cause> why, std::string text);
  void open_instance(instance_id fresh, const std::optional<started_job>& by);
  void drain(node& who);
  void stop_by_operator(cause why);
  void make_way_for(const hello& newcomer);
  void lose_ending();

  // record.cpp.
  void begin_instance(const node& opener);
  void close_as_due();
  void end_lost_instance();
  std::optional<run_record> record_now() const;
  bool is_recorded() const;
  void persist();
  void order_close(node& who, message_pointer message);

  // view.cpp.
  std::string reason() const;
};

}  // namespace ddprun::core
