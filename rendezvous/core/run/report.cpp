// What the members report of a round's end, what is made of it when the stop is over (DESIGN.md,
// rules 5 and 6), and what is said of the round then (rule 11).
#include "rendezvous/core/messages/restart_text.hpp"
#include "rendezvous/core/run/state.hpp"

#include <utility>

namespace ddprun::core {

// As one of its workers, or it itself, ended the newest round.
cause cause_of(const round_numbers& rounds, const node& who, cause_class kind) {
  cause why;
  why.round = rounds.newest();
  if (who.membership != nullptr) why.group_rank = who.membership->group_rank();
  why.node = who.label();
  why.kind = kind;
  return why;
}

void collect_causes(const round_numbers& rounds, root_cause& causes, time_point real_now,
                    const node& who) {
  for (const cause& one : who.state.causes) {
    if (one.round == rounds.newest()) causes.add_report(one, real_now);
  }
}

// A member says its tail until it was answered; what comes after is the same without it.
void keep_tails(const status& before, status& newest) {
  for (cause& one : newest.causes) {
    if (!one.tail.empty()) continue;
    for (const cause& known : before.causes) {
      const bool is_same = one.round == known.round && one.kind == known.kind &&
                           one.code == known.code && one.local_rank == known.local_rank &&
                           one.process == known.process;
      if (is_same) one.tail = known.tail;
    }
  }
}

// A worker of a node that is drained, which ended by the signal that drains it. Whether the agent
// or its workers were sent it first, and who of them was noticed first, is chance.
bool is_drain(const node& member, const cause& one) {
  return member.state.draining && is_end_by(one, member.state.signal);
}

// The root cause, as known when all have stopped: a node that drains may have said so after its
// workers had ended. Then the reports are judged again.
std::optional<cause> final_cause(const round_numbers& rounds, const round_memberships& memberships,
                                 const root_cause& causes, const round_stop& stop,
                                 const machine_clock& clock) {
  root_cause judged = causes.without_reports();
  bool is_drained = false;
  for (const membership& own : memberships) {
    const node* const member = own.holder();
    if (member == nullptr) continue;
    for (cause one : member->state.causes) {
      if (one.round != rounds.newest()) continue;
      if (is_drain(*member, one)) {
        is_drained = true;
        one.kind = cause_class::drain;
        one.code = member->state.signal;
        one.by_our_stop = false;
        one.was_failing = false;
        one.rank.reset();
        one.local_rank.reset();
        one.text.clear();
      }
      judged.add(one, clock.real(member->heard));
    }
  }
  const std::optional<cause>& first = is_drained ? judged.get() : causes.get();
  // Nothing has failed where only our own stop ended workers, and that for another reason.
  const bool is_ours = first && is_only_stopped(*first);
  return is_ours && stop.is_free() ? std::nullopt : first;
}

namespace {

message_pointer message_of(const round_report& report) {
  return std::make_shared<const daemon_message>(report);
}

bool was_in(const node& who, const round_report& report) {
  return who.state.instance == report.instance && who.state.round == report.round;
}

}  // namespace

duration lasted_so_far(const entered_phase& phase, const round_age& age, machine_time now) {
  return phase == run_phase::running ? age.lasted(now) : duration::zero();
}

// While its memberships are still known.
void add_report(current_instance& current, const round_numbers& rounds,
                const round_memberships& memberships, const dead_members& dead,
                const std::optional<cause>& why) {
  round_report report;
  report.instance = current.id;
  report.round = rounds.newest();
  report.world_size = std::max(1U, current.common.world_size);
  report.group_world_size = static_cast<std::uint32_t>(memberships.size());
  report.lasted = current.lasted;
  report.root_cause = why;
  std::vector<ended_ranks> ends;
  for (const membership& one : memberships) {
    const node* const member = one.holder();
    if (member == nullptr) {
      add_ends_of_missing(dead_holder(dead, current, rounds, one), current, ends);
    }
    if (member == nullptr || one.command() != command::run) continue;
    const std::uint32_t last = one.rank_first() + member->greeting.worker_count - 1;
    const status& said = member->state;
    const bool has_said = was_in(*member, report) && !said.ends.empty();
    const bool have_all_succeeded =
        has_said && said.ends.size() == 1 && said.ends.front().how == ending::succeeded;
    if (one.has_succeeded() && !have_all_succeeded) {
      ends.push_back({ending::succeeded, one.rank_first(), last});
    } else if (has_said) {
      ends.insert(ends.end(), said.ends.begin(), said.ends.end());
    } else if (one.is_away() || one.is_unreachable() || one.liveness() == worker_liveness::dead) {
      ends.push_back({ending::lost, one.rank_first(), last});
    }
  }
  report.ends = merged(std::move(ends));
  if (current.settings) report.restarts_max = current.settings->restarts_max;
  current.reports.push_back(std::move(report));
  if (current.reports.size() > reports_max) current.reports.pop_front();
}

std::string what_is_next(const current_instance& current, time_point real_now,
                         const std::optional<cause>& charged) {
  if (!charged) {
    const std::optional<cause>& told = current.reports.back().root_cause;
    const bool is_told = told && describe(*told) == current.last_end;
    return "going on" + (is_told ? "" : ": " + current.last_end) +
           "; no restart is charged for that";
  }
  const run_settings& settings = *current.settings;
  if (is_charged_as_restart(charged->kind)) {
    const restart_budget& budget = current.budget;
    return restart_text(budget.restarts_used(), budget.restarts_forgiven(), settings.restarts_max);
  }
  if (charged->kind == cause_class::node_lost) {
    return "going on without it: node loss " +
           std::to_string(current.budget.node_losses(real_now)) + " of " +
           std::to_string(settings.node_losses_max) + " within an hour";
  }
  return "going on; no restart is charged for that";
}

// Of the words with which a run is closed, those that are not the cause itself.
std::string why_it_ends(const std::optional<cause>& why, const std::string& text) {
  if (!why) return text;
  const std::string said = describe(*why);
  if (!text.starts_with(said)) return text;
  if (text.size() > said.size() + 2) return text.substr(said.size() + 2);
  return is_charged_as_restart(why->kind) ? "no restart was asked for (--max-restarts)"
                                          : "the run ends";
}

// Before what follows: so each member that is here hears it first.
void run::state::tell_report(bool is_last, int exit_code, std::string next) {
  if (current.reports.empty() || !current.reports.back().text.empty()) return;
  round_report& report = current.reports.back();
  report.restarts_used = current.budget.restarts_used();
  report.restarts_forgiven = current.budget.restarts_forgiven();
  report.is_last = is_last;
  report.exit_code = exit_code;
  report.text = std::move(next);
  const message_pointer message = message_of(report);
  for (const auto& [order, who] : nodes) {
    if (was_in(*who, report) && who->connection != 0) send(*who, message);
  }
  if (report.root_cause) report.root_cause->tail.clear();
}

void run::state::tell_what_is_next() {
  if (!current.untold_next.empty()) tell_report(false, 0, std::exchange(current.untold_next, {}));
}

void run::state::tell_report_again(node& who) {
  if (current.reports.empty()) return;
  const round_report& report = current.reports.back();
  if (!report.text.empty() && was_in(who, report)) send(who, message_of(report));
}

}  // namespace ddprun::core
