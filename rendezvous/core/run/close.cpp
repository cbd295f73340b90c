// How an instance ends, for all or for one node: DESIGN.md, rule 9, drain and operator.
#include "rendezvous/base/signals.hpp"
#include "rendezvous/core/run/state.hpp"

#include <algorithm>
#include <csignal>

namespace ddprun::core {

bool cannot_start(const status& said) {
  return said.round == 0 && said.draining && said.signal == 0 && !said.causes.empty() &&
         said.causes.front().kind == cause_class::start;
}

int code_of_drain(const status& said) {
  return exit_code_of_signal(said.signal == 0 ? SIGTERM : said.signal);
}

// One that was away when its run was closed may say that all had ended well at its place. Where
// that is so at every place, nothing has failed and there was nothing to stop.
void run::state::learn_of_success(closed_instance& record, const status& said) {
  const bool is_news = record.exit_code != 0 && said.place && has_succeeded(said);
  if (!is_news || !record.left.complete_success(said)) return;
  record.exit_code = 0;
  record.why.reset();
  record.text = "every worker had succeeded when this run was closed (" + record.text + ")";
  note(note_level::info, "run " + options.run_id + " has exit code 0 after all: " + record.text);
  if (phase != run_phase::closed || &record != &closed.newest()) return;
  current.last_cause.reset();
  current.last_end = record.text;
}

// The same of a round that was given up, while no other has been chosen: nobody runs it again.
bool run::state::completes_success(const node& who) {
  const status& said = who.state;
  const bool chooses = phase == run_phase::gathering || phase == run_phase::settling;
  const bool is_of_it = said.instance == current.id && said.round == rounds.newest() &&
                        current.left_behind.round == rounds.newest() && said.place &&
                        has_succeeded(said);
  return chooses && is_of_it && current.left_behind.complete_success(said);
}

void run::state::tell_closed(node& who, closed_instance& record) {
  learn_of_success(record, who.state);
  who.standing = standing::closing;
  recount(who);
  groups.leave(who);
  // From now on it is its own word that counts.
  closed.take_out(who.greeting.session, record.instance, false, real_now);
  ddprun::desired value;
  value.epoch = options.epoch;
  value.instance = record.instance;
  value.round = std::max(record.round, who.state.round);
  raise_seq(who.state.desired_seq);
  value.seq = ++seq;
  value.phase = desired_phase::close;
  value.restarts_used = record.restarts_used;
  value.restarts_forgiven = record.restarts_forgiven;
  value.exit_code = record.exit_code;
  value.first_cause = record.why;
  value.text = record.text;
  order_close(who, finished(std::move(value)));
}

// Everybody of the instance is told; those who are away will be when they come back.
void run::state::close(int exit_code, std::optional<cause> why, std::string text) {
  DDPRUN_ASSERT(current.is_decided());
  note(exit_code == 0 ? note_level::info : note_level::error,
       "run " + options.run_id + " is closed with exit code " + std::to_string(exit_code) + ": " +
           text);
  if (!seats.empty()) {
    if (phase != run_phase::stopping) current.lasted = lasted_so_far();
    add_report(why);
  }
  closed_instance record;
  for (const seat& one : seats) {
    if (one.holder() == nullptr || one.fate() == fate::dead) continue;
    const node& member = *one.holder();
    if (member.connection == 0) record.absent.insert(member.greeting.session);
  }
  leave_round();
  current.last_cause = why;
  current.last_end = text;
  record.instance = current.id;
  record.exit_code = exit_code;
  record.why = std::move(why);
  record.text = std::move(text);
  record.round = rounds.highest();
  record.restarts_used = current.budget.restarts_used();
  record.restarts_forgiven = current.budget.restarts_forgiven();
  record.closed_at = real_now;
  record.job = current.job;
  record.left = std::move(current.left_behind);
  current.left_behind = {};
  ddprun::desired value = base_desired(desired_phase::close);
  value.round = record.round;
  value.exit_code = exit_code;
  value.first_cause = record.why;
  value.text = record.text;
  const message_pointer message = finished(std::move(value));
  tell_report(true, exit_code, why_it_ends(record.why, record.text));
  enter(run_phase::closed);
  choice = {};
  std::vector<node*> away;
  for (const auto& [order, who] : nodes) {
    if (who->standing == standing::closing || who->standing == standing::leaving) continue;
    record.absent.insert(who->greeting.session);
    // A fenced one kills first; it is told when it joins anew.
    if (who->standing == standing::fenced) {
      groups.leave(*who);
      continue;
    }
    who->standing = standing::closing;
    recount(*who);
    groups.leave(*who);
    if (who->connection == 0) {
      away.push_back(who.get());
    } else {
      order_close(*who, message);
    }
  }
  for (node* const who : away)
    forget(*who);
  groups.clear();
  earlier.drop();
  closed.add(std::move(record));
}

void run::state::open_instance(instance_id fresh, const std::optional<started_job>& by) {
  const std::optional<started_job> before =
      earlier.is_there() ? earlier.record()->job : current.job;
  const std::optional<started_job>& job = options.opened_by ? options.opened_by : by;
  if (!may_be_same_job(before, job)) leave_other_job(before);
  current = instance_here{.id = fresh, .opened_at = real_now, .job = job};
  claims = {};
  earlier.drop();
  rounds.begin_instance(options.first_round - 1);
  enter(run_phase::gathering);
}

// It has come to say why it takes no part, so that the others do not wait for it without a word.
void run::state::dismiss_unable(node& who) {
  cause why = cause_of(who, cause_class::drain);
  why.text = who.state.causes.front().text;
  remember_departure(who, why);
  current.unable = {who.lasting_name(), who.label() + " takes no part: " + why.text};
  note(note_level::warning, current.unable.text);
  release(who, 0);
}

// The node is asked to leave. What it did in a round that is over or went well stays done.
void run::state::drain(node& who) {
  if (who.standing != standing::here) return;
  const bool is_new = !std::exchange(who.drain_seen, true);
  if (who.seat == nullptr && cannot_start(who.state)) return dismiss_unable(who);
  cause why = cause_of(who, cause_class::drain);
  why.code = who.state.signal;
  remember_departure(who, why);
  if (phase == run_phase::stopping || phase == run_phase::settling) {
    // Judged when the next round is chosen: perhaps all are asked to leave.
    if (is_new && (who.seat != nullptr || choice.is_pausing(now))) remember_loss();
    return;
  }
  const bool works = who.seat != nullptr && who.seat->phase() != member_phase::succeeded;
  if (works) {
    causes.add(why, real_now);
    remember_loss();
    const std::optional<cause> first = causes.get();
    end_round(&*first, timing().drain_grace, describe(*first));
    return;
  }
  // A leader whose workers are done serves the store until the others are done too.
  if (who.leads()) return;
  const bool goes_on_without =
      who.seat != nullptr || phase != run_phase::gathering || groups.here() != 0;
  if (!current.is_decided() || is_recovering()) {
    release(who, groups.here() != 0 ? 0 : code_of_drain(who.state));
  } else if (goes_on_without) {
    release(who, 0);
  } else {
    close(code_of_drain(who.state), current.last_cause, "every node was asked to leave");
  }
}

// It leaves, the run goes on.
void run::state::release(node& who, int exit_code) {
  note(note_level::info, who.label() + " leaves, as it was asked to");
  who.standing = standing::leaving;
  recount(who);
  groups.leave(who);
  ddprun::desired value = base_desired(desired_phase::close);
  value.round = std::max(rounds.newest(), who.state.round);
  value.exit_code = exit_code;
  value.text = "this node was asked to leave; the run goes on without it";
  want(who, finished(std::move(value)));
}

void run::state::stop_by_operator(cause why) {
  // Until it is known what is on here, there is nothing to stop.
  if (current.operator_stop || phase == run_phase::closed || !current.is_decided() ||
      is_recovering())
    return;
  current.operator_stop = std::move(why);
  switch (phase) {
    case run_phase::gathering:
    case run_phase::settling:
      close(exit_code_of(*current.operator_stop), current.operator_stop,
            describe(*current.operator_stop));
      return;
    case run_phase::preparing:
    case run_phase::running:
      causes.add(*current.operator_stop, real_now);
      end_round(&*current.operator_stop, timing().drain_grace, describe(*current.operator_stop));
      return;
    case run_phase::stopping:
    case run_phase::closed:
      return;
  }
}

}  // namespace ddprun::core
