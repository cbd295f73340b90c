// A round from its assignment to what ends it: DESIGN.md, rules 3, 4 and 8.
#include "rendezvous/core/run/state.hpp"

#include <csignal>

namespace ddprun::core {

void run::state::on_member_status(node& who, const status& before) {
  const status& said = who.state;
  recount(who);
  if (said.signal == SIGINT) {
    cause why;
    why.round = round;
    why.slot = *who.slot;
    why.node = who.label();
    why.kind = cause_class::operator_stop;
    why.code = SIGINT;
    stop_by_operator(std::move(why));
    if (!who.slot) return;
  }
  if (said.draining) {
    drain(who);
    if (!who.slot) return;
  }
  if (before.instance == instance && said.instance == 0) {
    // It has killed its workers and joined anew although nobody told it to.
    if (phase == run_phase::stopping) {
      acknowledge(who);
      mark_down(who);
    } else if (who.phase != member_phase::succeeded && who.was_told != told::nothing) {
      who.phase = member_phase::stopped;
      on_unasked_end(who);
    }
    return;
  }
  if (phase == run_phase::stopping) {
    on_stop_status(who);
  } else if (said.instance == instance && said.round == round && who.was_told != told::nothing) {
    collect_causes(who);
    on_progress(who);
  }
}

void run::state::on_progress(node& who) {
  const status& said = who.state;
  switch (said.phase) {
    case member_phase::preparing:
    case member_phase::joined:
    case member_phase::lost:
      break;
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::succeeded:
      if (phase == run_phase::running) set_phase(who, said.phase);
      return;
    case member_phase::failed:
      who.phase = member_phase::failed;
      on_unasked_end(who);
      return;
    case member_phase::stopping:
    case member_phase::stopped:
      // Success is final; whatever it stops after that is not our workers.
      if (who.phase == member_phase::succeeded) return;
      who.phase = said.phase;
      on_unasked_end(who);
      return;
  }
  if (who.slot == 0U) assign_if_prepared();
}

// A round starts when what it may cost is kept, too.
void run::state::assign_if_prepared() {
  if (phase == run_phase::preparing && is_prepared() && is_recorded()) assign_all();
}

bool run::state::is_prepared() const {
  const node& leader = *members.front();
  const status& said = leader.state;
  const bool is_of_round = said.instance == instance && said.round == round;
  return is_of_round && leader.was_told != told::nothing && said.phase == member_phase::preparing &&
         said.service_port != 0;
}

// Phases only go forward: a status that was under way is no step back.
void run::state::set_phase(node& member, member_phase next) {
  if (member.phase >= next) return;
  const bool was_running = member.phase >= member_phase::running;
  member.phase = next;
  note_success(member);
  if (next < member_phase::running || was_running) return;
  ++members_running;
  if (members_running == members.size()) {
    reserve_rounds(rounds_block / 2);
    start_deadline.reset();
    ++wait_generation;
    note(note_level::info, "round " + std::to_string(round) + ": all " +
                               std::to_string(common.world_size) + " workers are started");
  }
}

void run::state::note_success(node& member) {
  const bool is_new = has_succeeded(member.state) && !member.succeeded;
  member.succeeded = member.succeeded || is_new;
  if (is_new) ++members_succeeded;
}

void run::state::assign_all() {
  const node& leader = *members.front();
  common.tether_port = leader.state.service_port;
  common.master_port =
      leader.state.master_port != 0 ? leader.state.master_port : leader.state.service_port;
  common.leader_node = leader.label();
  common.nccl_ids = leader.state.nccl_ids;
  has_placed = true;
  remembered.reset();
  enter(run_phase::running);
  start_deadline = now + timing().start_timeout;
  for (node* const member : members) {
    ddprun::desired value = base_desired(desired_phase::run);
    value.place = place_of(*member);
    member->was_told = told::run;
    want(*member, finished(std::move(value)));
  }
}

// A member's workers fail, or end although nobody asked for it.
void run::state::on_unasked_end(node& who) {
  if (!causes.get()) {
    cause why;
    why.round = round;
    why.slot = *who.slot;
    why.node = who.label();
    if (who.phase == member_phase::failed) {
      why.kind = cause_class::exit;
      why.code = 1;
      why.text = "the node did not say which worker failed";
    } else {
      // An agent that nobody vouched for kills its workers, and says so when it is back.
      why.kind = cause_class::node_lost;
      why.text = "it stopped its workers by itself";
    }
    causes.add(why, now);
  }
  if (causes.get()->kind == cause_class::node_lost) remember_loss();
  end_round(&*causes.get(), timing().stop_grace, describe(*causes.get()));
}

void run::state::join_restarts(const node& who) {
  if (phase != run_phase::running || settings->on_join != join_policy::restart) return;
  if (who.slot || members.size() >= settings->nodes_max) return;
  // One that is starting is let start: it is asked again with the next heartbeat of who waits. Else
  // nodes that come back one by one, late from each stop, keep all of them from ever running.
  if (members_running < members.size()) return;
  stop_uncharged = true;
  remember_loss();
  end_round(nullptr, timing().drain_grace, who.label() + " joins: the round restarts with it");
}

// Losses, drains and joins come in groups: the next choice waits for quiet after the last of them.
void run::state::remember_loss() {
  if (!settle_wanted) first_loss = now;
  settle_wanted = true;
  last_loss = now;
  if (phase == run_phase::settling && !holds_for_words) {
    settle_until = std::min(last_loss + timing().settle, first_loss + timing().settle_max);
  }
}

void run::state::on_start_timeout() {
  const node* late = nullptr;
  std::size_t others = 0;
  for (const node* const member : members) {
    if (phase == run_phase::preparing && member->slot != 0U) continue;
    if (member->phase >= member_phase::running) continue;
    if (late == nullptr) {
      late = member;
    } else {
      ++others;
    }
  }
  start_deadline.reset();
  if (late == nullptr) return;
  cause why;
  why.round = round;
  why.slot = *late->slot;
  why.node = late->label();
  why.kind = cause_class::start;
  const member_phase reached =
      phase == run_phase::preparing ? member_phase::preparing : late->phase;
  why.text = "has not started within " + to_text(timing().start_timeout) + ", is still " +
             std::string(to_string(reached));
  if (others != 0) why.text += "; so are " + std::to_string(others) + " more nodes";
  causes.add(why, now);
  end_round(&*causes.get(), timing().stop_grace, describe(why));
}

}  // namespace ddprun::core
