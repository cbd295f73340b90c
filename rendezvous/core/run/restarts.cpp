// What ended a round, what that costs, what follows it and what is said of it: causes and reports,
// the budget, when restarts do not help, the pause before the next one, a node that is left out.
// DESIGN.md, rules 5, 6, 11, 12 and 13.
#include "rendezvous/core/run/restarts.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/restart_text.hpp"
#include "rendezvous/core/run/run_state.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::core {

namespace {

// Whether there were several ranks, and all ended for a reason of their own.
bool have_all_failed(const round_report& report) {
  std::uint64_t failed = 0;
  for (const ended_ranks& part : report.ends) {
    if (part.how == ending::failed) failed += std::uint64_t{part.last} - part.first + 1;
  }
  return report.world_size > 1 && failed == report.world_size;
}

}  // namespace

// The round's stop begins now: notes whether its end is a quick one.
void end_age(current_instance& current, const round_age& age, machine_time now,
             const timers& timing) {
  current.quick_end = age.quick_end(now, timing);
  if (current.quick_end) return;
  current.quick.end_row();
  current.has_run_long = true;
}

// Finds the node of the root cause and counts the failure, while the memberships are still known.
blamed_node blame(current_instance& current, const round_memberships& memberships,
                  const std::optional<cause>& why) {
  blamed_node found;
  if (!why || !is_charged_as_restart(why->kind) || why->group_rank >= memberships.size())
    return found;
  const node* const holder =
      memberships.begin()[static_cast<std::ptrdiff_t>(why->group_rank)].holder();
  if (holder == nullptr || holder->label() != why->node) return found;
  found.session = holder->greeting.session;
  found.name = holder->position_name();
  found.label = holder->label();
  if (current.settings->node_failures_max != 0 && is_failure_of_its_own(*why)) {
    found.failures = current.failing.add(found.name);
  }
  return found;
}

bool can_do_without(const current_instance& current, const roster& nodes, const blamed_node& one) {
  std::uint32_t others = 0;  // a second agent of that node does not count
  for (const auto& [order, who] : nodes) {
    if (who->counted && who->position_name() != one.name) ++others;
  }
  return others >= current.settings->nodes_min;
}

// How the run ends by this cause because the budget allows no round after it; none: it does allow
// one.
std::optional<run_end> end_beyond_budget(const current_instance& current, time_point real_now,
                                         const cause& why) {
  std::string limit;
  if (is_charged_as_restart(why.kind)) {
    const std::uint32_t most = current.settings->restarts_max;
    if (!current.budget.is_spent(most)) return std::nullopt;
    if (most != 0) {
      limit = most == 1 ? "; the only restart is used"
                        : "; all " + std::to_string(most) + " restarts are used";
    }
  } else if (why.kind == cause_class::node_lost) {
    const std::uint32_t most = current.settings->node_losses_max;
    if (current.budget.node_losses(real_now) < most) return std::nullopt;
    limit =
        "; more than " + std::to_string(most) + " node losses within an hour (--max-node-losses)";
  } else {
    return std::nullopt;
  }
  return run_end{exit_code_of(why), describe(why) + limit};
}

// Charges the failure. Returns how the run ends if the budget is spent or restarting does not help.
// The class that counts is that of the root cause, which is known only now: when a host dies, the
// other hosts' workers fail first, and a lost host must not use up --max-restarts.
std::optional<run_end> charge(current_instance& current, const roster& nodes, time_point real_now,
                              const std::optional<cause>& why, blamed_node& by) {
  if (!why) return std::nullopt;
  const run_settings& settings = *current.settings;
  if (is_charged_as_restart(why->kind)) {
    // The run ends with the operator's stop anyway.
    if (current.operator_stop) return std::nullopt;
    quick_failures& quick = current.quick;
    if (current.quick_end) {
      quick.add(*why, *current.quick_end, by.name, have_all_failed(current.reports.back()));
    }
    if (std::optional<run_end> end = end_beyond_budget(current, real_now, *why)) return end;
    const bool may_leave = by.failures != 0 && can_do_without(current, nodes, by);
    by.is_left_out = may_leave && by.failures >= settings.node_failures_max;
    // Failures that all came from this node may be over without it.
    const bool is_of_node = may_leave && quick.node() == by.name;
    // A run that has trained may be resuming from a bad snapshot. Workers set it aside after two
    // failures on it, so one more is allowed.
    const std::uint32_t most = settings.quick_failures_max +
                               (current.has_run_long && settings.quick_failures_max != 0 ? 1 : 0);
    if (most != 0 && quick.alike() >= most && !is_of_node) {
      return run_end{exit_code_of(*why), describe(*why) + "; " + why_it_gives_up(current)};
    }
    current.budget.charge_restart(settings.restarts_max);
    return std::nullopt;
  }
  if (why->kind != cause_class::node_lost) return std::nullopt;
  std::optional<run_end> end = end_beyond_budget(current, real_now, *why);
  current.budget.charge_node_loss(real_now, settings.node_losses_max);
  return end;
}

std::string why_it_gives_up(const current_instance& current) {
  const quick_failures& quick = current.quick;
  const std::uint32_t made = current.budget.restarts_counted();
  std::string text = "gave up";
  if (made != 0) {
    text += " after " + std::to_string(made) + " of " +
            counted(current.settings->restarts_max, "restart");
  }
  text += quick.alike() == 1 ? ": the round failed"
          : quick.are_same() ? ": the same failure occurred"
                             : ": all ranks failed";
  text += " within " + to_text(quick.within()) + " of the start";
  if (quick.alike() != 1) text += ", " + times(quick.alike()) + " in a row";
  return text + "; restarting does not help (use --max-quick-failures=0 to restart anyway)";
}

// Orders a pause if one is due, and leaves a node out. Returns the words for it, which follow
// "restart 2 of 3".
std::string how_it_goes_on(current_instance& current, settle_timer& settle, machine_time now,
                           const timers& timing, outbox& out, const std::optional<cause>& charged,
                           const blamed_node& by) {
  const std::string with_whom = leave_out(current, out, by);
  const duration pause = pause_before_next(current, settle, now, timing, charged);
  if (pause == duration::zero()) return with_whom.empty() ? "" : " " + with_whom;
  const std::string row = quick_row_text(current, timing);
  out.note(note_level::info, "the next round begins in " + to_text(pause) + ": " + row);
  const std::string soon = " in " + to_text(pause);
  return with_whom.empty() ? soon + ": " + row : soon + ", " + with_whom + "; " + row;
}

// Orders the pause, and returns its length; 0: there is none.
duration pause_before_next(const current_instance& current, settle_timer& settle, machine_time now,
                           const timers& timing, const std::optional<cause>& charged) {
  const bool is_quick = charged && is_charged_as_restart(charged->kind) && current.quick_end;
  const duration pause = is_quick ? current.quick.pause(timing.backoff_max) : duration::zero();
  if (pause > duration::zero()) settle.pause_until(now + pause);
  return std::max(pause, duration::zero());
}

std::string quick_row_text(const current_instance& current, const timers& timing) {
  const duration window = timing.startup_window;
  return "the last " + std::to_string(current.quick.in_row()) + " rounds failed " +
         (window > duration::zero() ? "within " + to_text(window) + " of their start"
                                    : "before all their workers ran");
}

// Decides what is done about a node whose workers were the first to fail too often. Returns the
// words for it.
std::string leave_out(current_instance& current, outbox& out, const blamed_node& by) {
  const std::uint32_t most = current.settings->node_failures_max;
  if (by.failures == 0 || by.failures < most) return {};
  const std::string often = "workers were the first to fail " + times(by.failures);
  if (by.is_left_out) {
    current.failing.leave_out(by.name);
    current.quick.forget_alike();
    out.note(note_level::warning,
             by.label + " is left out from now on: its " + often + " (--max-node-failures)");
    return "without " + by.label + ", whose " + often + " (--max-node-failures)";
  }
  if (!current.failing.is_news(by.name)) return {};
  const std::string why = ", but there is no spare for it, and --nnodes allows no fewer nodes";
  out.note(note_level::warning, by.label + " stays: its " + often + why);
  return "with " + by.label + ", whose " + often + why;
}

// Refuses all agents of a node that was left out, also one that has just been started again. The
// agent that holds this daemon stays and waits, because the daemon would end with it.
void dismiss(const run_options& options, const headcount& counts, current_instance& current,
             recovery_claims& claims, outbox& out, const blamed_node& one) {
  if (!one.is_left_out) return;
  std::vector<node*> its;
  for (const auto& [order, who] : counts.nodes) {
    if (who->node_state == node_state::here && who->position_name() == one.name) {
      its.push_back(who.get());
    }
  }
  for (node* const who : its) {
    if (!who->hosts_us) {
      refuse(counts, current, claims, out, *who,
             left_out_text(options, current, who->position_name()));
      continue;
    }
    who->participation = participation::left_out;
    recount(counts, *who);
    who->notice_seen = counts.waiting.edition();  // so that it is told what comes next
  }
}

// Refuses left-out nodes that came again in case they were needed: they are not.
void refuse_left_out(const run_options& options, const headcount& counts, current_instance& current,
                     recovery_claims& claims, outbox& out) {
  if (current.failing.left_out() == 0) return;
  std::vector<node*> idle;
  for (const auto& [order, who] : counts.nodes) {
    if (who->is_left_out() && !who->hosts_us && who->node_state == node_state::here) {
      idle.push_back(who.get());
    }
  }
  for (node* const who : idle)
    refuse(counts, current, claims, out, *who,
           left_out_text(options, current, who->position_name()));
}

// Whether too few nodes are here for a round: then any node may be needed, even one that was left
// out.
bool is_short(const entered_phase& phase, const current_instance& current,
              const gathering& groups) {
  return phase == run_phase::gathering && current.settings &&
         groups.here() < current.settings->nodes_min;
}

// Why this node is refused; empty: it was not left out.
std::string left_out_text(const run_options& options, const current_instance& current,
                          const std::string& name) {
  if (!current.failing.is_left_out(name)) return {};
  return "run " + options.run_id + " goes on without this node: workers on " + name +
         " were the first to fail " + times(current.failing.of(name)) +
         " (--max-node-failures); look for what is wrong with it before it joins another run";
}

// What a left-out node that waits is told, after "this node".
std::string left_out_advice(const current_instance& current, const std::string& name) {
  const std::uint32_t least = current.settings->nodes_min;
  return " is left out, as its workers were the first to fail " + times(current.failing.of(name)) +
         " (--max-node-failures), and steps in again when " +
         (least == 1 ? "no other node is left"
                     : "fewer than " + std::to_string(least) + " others are left");
}

// When the budget is refilled, if nothing fails until then.
timer_moment refill_at(const entered_phase& phase, const current_instance& current,
                       const round_age& age, const root_cause& causes, const timers& timing) {
  const duration window = timing.restart_window;
  const bool is_wanted = window > duration::zero() && current.budget.restarts_counted() != 0;
  if (!is_wanted || phase != run_phase::running || causes.get() || !age.all_run_since()) {
    return std::nullopt;
  }
  return *age.all_run_since() + window;
}

void run::state::refill_budget() {
  current.budget.refill();
  const std::uint32_t used = current.budget.restarts_used();
  out.note(note_level::info, "round " + std::to_string(rounds.newest()) + " has run for " +
                                 to_text(timing_of(current, groups).restart_window) +
                                 " without a failure: --max-restarts starts over, after " +
                                 counted(used, "restart"));
}

std::uint32_t restart_budget::node_losses(time_point now) const {
  return static_cast<std::uint32_t>(
      std::count_if(node_losses_.begin(), node_losses_.end(),
                    [now](time_point moment) { return now - moment < node_loss_window; }));
}

bool restart_budget::charge_restart(std::uint32_t restarts_max) {
  if (is_spent(restarts_max)) return false;
  ++restarts_used_;
  return true;
}

bool restart_budget::charge_node_loss(time_point now, std::uint32_t losses_max) {
  while (!node_losses_.empty() && now - node_losses_.front() >= node_loss_window)
    node_losses_.pop_front();
  node_losses_.push_back(now);
  return node_losses_.size() <= losses_max;
}

void restart_budget::raise_restarts_used(std::uint32_t said) {
  restarts_used_ = std::max(restarts_used_, said);
}

namespace {

bool is_of_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

// Replaces each word that has a digit: "step 1200 at 0x7f2a" and "step 7 at 0x55c0" become the
// same.
std::string without_numbers(std::string_view text) {
  std::string made;
  while (!text.empty()) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_of_word);
    const std::string_view word = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    const bool has_digit = std::any_of(
        word.begin(), word.end(), [](unsigned char letter) { return std::isdigit(letter) != 0; });
    made += has_digit ? std::string_view("#") : word;
    text.remove_prefix(word.size());
    if (text.empty()) break;
    made += text.front();
    text.remove_prefix(1);
  }
  return made;
}

// A worker that had said why it fails has failed by itself, even if our stop came before it had
// exited.
cause_class kind_of(const cause& value) {
  return value.was_failing ? cause_class::exit : value.kind;
}

}  // namespace

bool is_same_failure(const cause& one, const cause& other) {
  return kind_of(one) == kind_of(other) && exit_code_of(one) == exit_code_of(other) &&
         without_numbers(one.text) == without_numbers(other.text);
}

bool is_failure_of_its_own(const cause& why) {
  return is_charged_as_restart(why.kind) && !why.is_secondary && !is_only_stopped(why);
}

void quick_failures::add(const cause& first, duration after, const std::string& node,
                         bool all_failed) {
  ++in_row_;
  if (!is_failure_of_its_own(first)) {
    forget_alike();
    return;
  }
  const bool is_same = last_ && is_same_failure(*last_, first);
  same_ = is_same ? same_ + 1 : 1;
  all_failed_ = all_failed ? all_failed_ + 1 : 0;
  const bool goes_on = alike() > 1;
  longest_ = goes_on ? std::max(longest_, after) : after;
  if (!goes_on) {
    node_ = node;
  } else if (node_ != node || all_failed) {
    node_.clear();
  }
  last_ = first;
}

void quick_failures::forget_alike() {
  const std::uint32_t in_row = in_row_;
  *this = {};
  in_row_ = in_row;
}

duration quick_failures::within() const {
  const duration second = std::chrono::seconds(1);
  return std::max(second, (longest_ + second - duration(1)) / second * second);
}

duration quick_failures::pause(duration most) const {
  if (in_row_ < 2) return duration::zero();
  duration length = first_pause;
  for (std::uint32_t index = 2; index < in_row_ && length < most; ++index)
    length *= 2;
  return std::min(length, most);
}

// What the members report about the end of a round, what follows from it when the stop is over
// (DESIGN.md, rules 5 and 6), and what they are told about it (rule 11).

// A cause for the end of the newest round, on this node.
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

// A member sends a tail until it has been acknowledged, and leaves it out afterwards.
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

// Whether a worker of a draining node ended by the signal that drains the node. Whether the agent
// or its workers got that signal first, and which of them was noticed first, is chance.
bool is_drain(const node& member, const cause& one) {
  return member.state.draining && is_end_by(one, member.state.signal);
}

// The root cause, as known when all members have stopped. A node may have said that it drains only
// after its workers had ended; then all reports are judged again.
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
  // If the stop was free and did nothing but end workers, nothing has failed.
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

// Called while the memberships are still known.
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
    // Success is final, whatever the member has reported since.
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

// The part of a run's closing text that does not repeat the cause.
std::string why_it_ends(const std::optional<cause>& why, const std::string& text) {
  if (!why) return text;
  const std::string said = describe(*why);
  if (!text.starts_with(said)) return text;
  if (text.size() > said.size() + 2) return text.substr(said.size() + 2);
  return is_charged_as_restart(why->kind) ? "--max-restarts is 0, so nothing is restarted"
                                          : "the run ends";
}

// Sent before anything that follows, so that each member that is here reads it first.
void tell_report(current_instance& current, const roster& nodes, outbox& out, bool is_last,
                 int exit_code, std::string next) {
  if (current.reports.empty() || !current.reports.back().text.empty()) return;
  round_report& report = current.reports.back();
  report.restarts_used = current.budget.restarts_used();
  report.restarts_forgiven = current.budget.restarts_forgiven();
  report.is_last = is_last;
  report.exit_code = exit_code;
  report.text = std::move(next);
  const message_pointer message = message_of(report);
  for (const auto& [order, who] : nodes) {
    if (was_in(*who, report) && who->connection != 0) out.send(*who, message);
  }
  if (report.root_cause) report.root_cause->tail.clear();
}

void tell_what_is_next(current_instance& current, const roster& nodes, outbox& out) {
  if (!current.untold_next.empty())
    tell_report(current, nodes, out, false, 0, std::exchange(current.untold_next, {}));
}

void tell_report_again(const current_instance& current, outbox& out, node& who) {
  if (current.reports.empty()) return;
  const round_report& report = current.reports.back();
  if (!report.text.empty() && was_in(who, report)) out.send(who, message_of(report));
}

}  // namespace ddprun::core
