#include "rendezvous/core/run/run_machine.hpp"

#include "rendezvous/core/messages/versions.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>

namespace ddprun::core {

run::run(run_options options) : state_(std::make_unique<state>()) {
  state_->options = std::move(options);
  state_->out = outbox(state_->options.epoch);
  state_->rounds = round_numbers(state_->options.first_round - 1);
  state_->claims.wait_until(state_->clock.own(state_->options.recovery_until));
  const auto remembered = std::exchange(state_->options.remembered, std::nullopt);
  if (!remembered) return;
  remember(state_->options, state_->phase, state_->current, state_->rounds, state_->claims,
           state_->closed, state_->persisted, state_->records, state_->clock, *remembered);
}

run::~run() = default;
run::run(run&&) noexcept = default;
run& run::operator=(run&&) noexcept = default;

void run::step(const run_event& event, time_point now, run_effects& effects) {
  state_->set_time(now);
  state_->out.begin_step(effects);
  if (++state_->steps == 1) state_->claims.end_wait_if_over(state_->now);
  std::visit([this](const auto& one) { state_->handle(one); }, event);
  forget_excess(state_->counts(), state_->current, state_->claims, state_->memberships,
                state_->clock, state_->out);
  state_->progress();
  state_->persist();
  state_->out.end_step();
}

run_phase run::phase() const {
  return state_->phase;
}

std::optional<time_point> run::next_deadline() const {
  return next_due(*state_, state::timer_table());
}

// Whether the nodes that are here may make up a round: nodes of an earlier daemon are not waited
// for.
bool may_gather(const entered_phase& phase, const recovery_claims& claims, const roster& nodes) {
  return phase == run_phase::gathering && (nodes.connected() == 0 || !is_recovering(phase, claims));
}

// In the order in which they are judged. A row without a function only makes `time_passed` come in
// time, because progress() judges after every event.
std::span<const machine_timer<run::state>> run::state::timer_table() {
  using row = machine_timer<state>;
  static constexpr row table[] = {
      // A node has been silent for too long.
      {[](const state& run) -> timer_moment { return run.nodes.next_look(); },
       &state::check_liveness},
      // A round has not started in time.
      {[](const state& run) -> timer_moment { return run.memberships.start_deadline(); },
       &state::on_start_timeout},
      // The root cause has had its time to be reported.
      {[](const state& run) -> timer_moment { return run.phase.cause_grace().until(); },
       &state::on_failure_grace_over},
      // A member has said that its ranks stand still.
      {[](const state& run) -> timer_moment { return run.phase.stalls().deadline(); },
       &state::look_at_stalls},
      // A round has run for restart_window.
      {[](const state& run) {
         return refill_at(run.phase, run.current, run.age, run.causes,
                          timing_of(run.current, run.groups));
       },
       &state::refill_budget},
      // A member does not stop.
      {[](const state& run) { return stop_overdue_at(run.phase, run.memberships, run.stop); },
       &state::on_stop_overdue},
      // No node has come back to an instance.
      {[](const state& run) { return lost_instance_at(run.current, run.persisted, run.nodes); },
       &state::end_lost_instance},
      // The nodes of an earlier daemon stay away. If no node is here, there is none to tell.
      {[](const state& run) -> timer_moment {
        const bool waits = run.nodes.connected() != 0 && is_recovering(run.phase, run.claims);
        return waits ? timer_moment(run.claims.until()) : std::nullopt;
      }},
      // A last call is over.
      {[](const state& run) -> timer_moment {
        return may_gather(run.phase, run.claims, run.nodes)
                   ? timer_moment(run.groups.deadline(run.now))
                   : std::nullopt;
      }},
      // Workers of an older instance must be gone.
      {[](const state& run) -> timer_moment {
        return may_gather(run.phase, run.claims, run.nodes)
                   ? stale_deadline(run.current, run.stale, run.closed, run.persisted, run.nodes,
                                    run.clock)
                   : std::nullopt;
      }},
      // Too few nodes have come within join_timeout.
      {[](const state& run) -> timer_moment {
        const bool waits = may_gather(run.phase, run.claims, run.nodes) && run.current.is_decided();
        return waits ? timer_moment(gather_until(run.phase, run.current, run.stale, run.closed,
                                                 run.persisted, timing_of(run.current, run.groups),
                                                 run.clock))
                     : std::nullopt;
      }},
      // The next choice has waited long enough.
      {[](const state& run) -> timer_moment {
        const bool settles = run.phase == run_phase::settling;
        return settles ? timer_moment(run.settle.until(run.now)) : std::nullopt;
      }},
      // No unreachable member can have a living worker.
      {[](const state& run) -> timer_moment {
        const bool stops = run.phase == run_phase::stopping;
        return stops ? timer_moment(fence_until(run.memberships, run.stop,
                                                timing_of(run.current, run.groups)))
                     : std::nullopt;
      }},
  };
  return table;
}

bool is_deserted(const entered_phase& phase, const current_instance& current,
                 const stale_workers& stale, const persisted_run& persisted, const roster& nodes,
                 time_point at) {
  if (!nodes.empty() || at < stale.lost_until()) return false;
  return phase == run_phase::closed || (!current.is_decided() && !persisted.is_there());
}

std::optional<time_point> run::over_since(time_point now) const {
  const state& self = *state_;
  if (!is_deserted(self.phase, self.current, self.stale, self.persisted, self.nodes, now) ||
      self.closed.empty())
    return std::nullopt;
  return self.closed.newest().closed_at;
}

bool run::forgettable(time_point now) const {
  const state& self = *state_;
  return is_deserted(self.phase, self.current, self.stale, self.persisted, self.nodes, now) &&
         self.closed.are_all_old(now);
}

void run::state::handle(const agent_joined& event) {
  const hello& greeting = event.hello;
  node* const known = nodes.find(greeting.session);
  const std::string problem = hello_problem(options, rounds, out, greeting, known);
  if (!problem.empty()) {
    out.refuse(event.connection, greeting.node, problem, refused_exit_code);
    return;
  }
  // A node of a closed instance is not refused for its job or settings: it has to be told how its
  // instance ended. A session that is known was judged when it first came.
  closed_instance* const record = closed.of(greeting, real_now);
  if (known == nullptr && record == nullptr) {
    const std::string taken =
        place_taken_text(options, phase, current, greeting.state.instance, greeting.job);
    if (!taken.empty()) {
      return out.refuse(event.connection, greeting.node, taken, displaced_exit_code);
    }
    // First, so that an instance without nodes does not refuse a newcomer of another job.
    make_way_for(greeting);
    const std::string text = refusal(options, phase, current, claims, nodes, groups, now, event);
    if (!text.empty()) {
      if (cannot_start(greeting.state)) {
        hear_of_unable(current, waiting, out, event);
      } else if (!difference(options, phase, current, claims, groups, now, greeting).empty()) {
        remember_refusal(options, phase, current, claims, groups, waiting, now, greeting);
      }
      out.refuse(event.connection, greeting.node, text, refused_exit_code);
      return;
    }
  }
  if (known == nullptr) {
    std::string other = version_warning(greeting.node, greeting.version, options.version);
    if (!other.empty()) out.note_refusal(std::move(other));
  }
  node& who = known == nullptr ? nodes.admit(greeting) : *known;
  attach(who, event);
  if (record != nullptr && who.node_state != node_state::closing) {
    tell_closed(who, *record);
  } else {
    recognise(who);
  }
  // Only now, because recognise() may have refused it, or fenced it, and then it gets no lease.
  if (node* const here = nodes.find(event.connection); here != nullptr && is_acked(claims, *here)) {
    tell_report_again(current, out, *here);
    out.send(*here, std::make_shared<const daemon_message>(ack{greeting.state.seq}));
  }
}

void run::state::handle(const status_received& event) {
  node* const who = nodes.find(event.connection);
  if (who == nullptr) return;
  std::string problem = status_problem(rounds, out, event.status, who->greeting);
  if (who->node_state == node_state::claimant && event.status.instance != who->state.instance) {
    problem = "status.instance: is not the one that it came with";
  }
  if (!problem.empty()) {
    out.note(note_level::error, who->label() + " is cut off: its status says " + problem);
    out.send(*who, std::make_shared<const daemon_message>(refused{refused_exit_code, problem}));
    detach(counts(), current, out, *who, true);
    return;
  }
  if (event.status.seq < who->state.seq) return;
  // Having ignored its stop, it gets no acks until a status shows the stop.
  if (who->is_unacked()) {
    who->heard = now;
    if (!shows_stop(current, *who, event.status)) return;
    memberships.set_unacked(*who->membership, false);
    mark_reached(memberships, stop, now, *who->membership);
  }
  const bool was_silent = is_candidate(nodes, *who) && !stop.precedes(who->heard_step);
  if (was_silent && settle.silent() != 0) settle.end_silence_of_one();
  const status before = std::exchange(who->state, event.status);
  const bool same_round =
      before.instance == event.status.instance && before.round == event.status.round;
  // A node sends its assignment in the hello only.
  if (same_round && !who->state.assignment) who->state.assignment = before.assignment;
  if (same_round) keep_tails(before, who->state);
  // A node that has just left its instance has ended its workers: that obeys any order.
  const bool has_obeyed =
      who->state.instance != 0 ? who->state.desired_seq >= who->wanted_seq : before.instance != 0;
  if (has_obeyed && who->obedience == obedience::ignores) {
    who->obedience = may_have_workers(who->state) ? obedience::overdue : obedience::obeys;
  }
  if (is_acked(claims, *who)) {
    out.send(*who, std::make_shared<const daemon_message>(ack{event.status.seq}));
  }
  const machine_time word_before = std::exchange(who->heard, now);
  who->heard_step = steps;
  switch (who->node_state) {
    case node_state::here:
      refuse_doubles(counts(), current, claims, out, *who, word_before);
      if (who->membership != nullptr) {
        on_member_status(*who, before);
      } else {
        on_idle_status(*who);
      }
      return;
    case node_state::claimant:
      refuse_doubles(counts(), current, claims, out, *who, word_before);
      return;
    case node_state::fenced:
      watch_ending(stale, waiting, now, *who);
      // In no instance: it has killed its workers and joins again. If all that is left are workers
      // that no signal ends, it can still be told that its run is over.
      if (who->state.instance == 0) {
        recognise(*who);
      } else if (!may_have_workers(who->state)) {
        closed_instance* const record = closed.of(who->greeting, real_now);
        if (record != nullptr) tell_closed(*who, *record);
      }
      return;
    case node_state::leaving:
    case node_state::closing:
      watch_ending(stale, waiting, now, *who);
      return;
  }
}

void run::state::handle(const goodbye_received& event) {
  node* const who = nodes.find(event.connection);
  if (who == nullptr) return;
  // It has read the close, so this session needs to be told nothing more.
  if (who->node_state == node_state::closing) {
    closed.take_out(who->greeting.session, who->state.instance, true, real_now);
    closed.said_goodbye(who->greeting.session);
  }
  lose(*who, true, "left", true);
}

void run::state::handle(const agent_disconnected& event) {
  node* const who = nodes.find(event.connection);
  if (who == nullptr) return;
  detach(counts(), current, out, *who, false);
  // A node that was told to go does not come back. Its workers may still live.
  const bool was_told_to_go =
      who->node_state == node_state::closing || who->node_state == node_state::leaving;
  if (was_told_to_go && who->membership == nullptr) {
    remember_lost(phase, current, stale, closed, clock, *who, false);
    forget(counts(), current, claims, out, *who);
  }
}

void run::state::handle(const guardian_reported& event) {
  closed.take_out(event.session, 0, true, real_now);
  // A session that is not known may be that of an agent in which an earlier daemon lived.
  node* const found = nodes.find(event.session);
  if (found == nullptr) return hear_of_dead(event);
  lose(*found, true, guardians_text);
}

void run::state::handle(const operator_stop_requested& event) {
  cause why;
  why.round = rounds.newest();
  why.kind = cause_class::operator_stop;
  why.text = event.text;
  stop_by_operator(std::move(why));
}

void run::state::handle(const record_persisted& event) {
  records.set_persisted(event.revision);
  // A newer record may have been asked for since.
  if (!is_recorded()) return;
  for (const auto& [order, who] : nodes) {
    if (who->owed) out.want(*who, std::exchange(who->owed, nullptr));
  }
  assign_if_prepared();
}

void run::state::handle(const time_passed&) {
  claims.end_wait_if_over(now);
  for (const auto& one : timer_table())
    do_if_due(*this, one);
  closed.forget_old(real_now);
}

void run::state::handle(const loop_was_late& event) {
  clock.lose(event.by);
  set_time(real_now);
}

void run::state::set_time(time_point real) {
  clock.set(real);
  now = clock.now();
  real_now = real;
}

// Moves the run on as far as the present knowledge allows.
void run::state::progress() {
  switch (phase) {
    case run_phase::gathering:
      check_gathering();
      return;
    case run_phase::settling:
      // A node that leaves need not wait for the pause to end.
      if (settle.is_quiet_in_pause(now)) {
        take_reserves(counts(), current, out);
        let_drained_go();
      }
      if (phase == run_phase::settling && settle.is_over(now)) choose();
      return;
    case run_phase::preparing:
      return;
    case run_phase::running:
      if (memberships.succeeded() == memberships.size()) {
        out.note(note_level::info,
                 "every worker of round " + std::to_string(rounds.newest()) + " succeeded");
        close(0, std::nullopt, "every worker succeeded");
      }
      return;
    case run_phase::stopping:
      if (is_stop_over(current, memberships, stop, timing_of(current, groups), now)) end_of_stop();
      return;
    case run_phase::closed:
      return;
  }
}

void enter(entered_phase& phase, wait_message& waiting, machine_time now, run_phase next) {
  phase.enter(next, now);
  waiting.change();
}

headcount run::state::counts() {
  return {phase, stale, closed, persisted, nodes, groups, waiting, now};
}

const timers& timing_of(const current_instance& current, const gathering& groups) {
  static const timers defaults;
  if (current.settings) return current.settings->timing;
  return groups.empty() ? defaults : groups.first().settings().timing;
}

const timers& timing_of(const current_instance& current, const node& member) {
  return current.settings ? current.settings->timing : member.greeting.settings.timing;
}

desired base_desired(const current_instance& current, const round_numbers& rounds, outbox& out,
                     desired_phase what) {
  desired value;
  value.epoch = out.epoch();
  value.instance = current.id;
  value.round = rounds.newest();
  value.seq = out.next_seq();
  value.phase = what;
  value.restarts_used = current.budget.restarts_used();
  value.restarts_forgiven = current.budget.restarts_forgiven();
  value.job = current.job;
  return value;
}

message_pointer finished(desired value) {
  return std::make_shared<const daemon_message>(std::move(value));
}

}  // namespace ddprun::core
