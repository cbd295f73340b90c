// A round from its assignment to what ends it: DESIGN.md, rules 3, 4, 8 and 15; and its
// memberships.
#include "rendezvous/core/run/round.hpp"

#include "rendezvous/base/counted.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/run/choose.hpp"
#include "rendezvous/core/run/nodes.hpp"
#include "rendezvous/core/run/run_state.hpp"
#include "rendezvous/core/run/view.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::core {

void run::state::on_member_status(node& who, const status& before) {
  const status& said = who.state;
  recount(counts(), who);
  // Ctrl-C at one node stops the whole run.
  if (said.signal == SIGINT) {
    cause why = cause_of(rounds, who, cause_class::operator_stop);
    why.code = SIGINT;
    stop_by_operator(std::move(why));
    if (who.membership == nullptr) return;
  }
  if (said.draining) {
    drain(who);
    if (who.membership == nullptr) return;
  }
  membership& own = *who.membership;
  const bool was_called = own.command() != command::none;
  if (before.instance == current.id && said.instance == 0) {
    // It has killed its workers and joined again without an order.
    if (phase == run_phase::stopping) {
      acknowledge(waiting, memberships, stop, now, own);
      mark_ended(own);
    } else if (own.phase() != member_phase::succeeded && was_called) {
      memberships.fall(own, member_phase::stopped);
      on_unasked_end(who);
    }
    return;
  }
  if (phase == run_phase::stopping) {
    on_stop_status(who);
  } else if (said.instance == current.id && said.round == rounds.newest() && was_called) {
    collect_causes(rounds, causes, real_now, who);
    hear_stall(phase, memberships, now, who, before);
    hear_restored(phase, memberships, now, timing_of(current, groups).start_timeout, who, before);
    on_progress(who);
  }
}

void run::state::on_progress(node& who) {
  const status& said = who.state;
  membership& own = *who.membership;
  switch (said.phase) {
    case member_phase::preparing:
    case member_phase::joined:
    case member_phase::lost:
      break;
    case member_phase::assigned:
    case member_phase::starting:
    case member_phase::running:
    case member_phase::succeeded:
      // The assignment that it has read named them.
      who.whereabouts_heard = whereabouts.edition();
      // A status that was under way is not a step back.
      if (phase != run_phase::running || said.phase <= own.phase()) return;
      note_success(memberships, who);
      if (memberships.advance(own, said.phase))
        on_all_started(current, rounds, age, waiting, now, out);
      return;
    case member_phase::failed:
      memberships.fall(own, member_phase::failed);
      on_unasked_end(who);
      return;
    case member_phase::stopping:
    case member_phase::stopped:
      // Success is final. What the member stops afterwards are not workers of the round.
      if (own.phase() == member_phase::succeeded) return;
      memberships.fall(own, said.phase);
      on_unasked_end(who);
      return;
  }
  if (who.leads()) assign_if_prepared();
}

// A round starts only when the restart that it cost is persisted, too.
void run::state::assign_if_prepared() {
  if (phase == run_phase::preparing && is_prepared(current, rounds, memberships) && is_recorded())
    assign_all();
}

bool is_prepared(const current_instance& current, const round_numbers& rounds,
                 const round_memberships& memberships) {
  const status& said = memberships.leader().state;
  const bool is_of_round = said.instance == current.id && said.round == rounds.newest();
  return is_of_round && said.phase == member_phase::preparing && said.service_port != 0;
}

void on_all_started(const current_instance& current, round_numbers& rounds, round_age& age,
                    wait_message& waiting, machine_time now, outbox& out) {
  age.all_run(now);
  rounds.reserve_ahead();
  waiting.change();
  const std::uint32_t workers = current.common.world_size;
  out.note(note_level::info,
           "round " + std::to_string(rounds.newest()) + ": " +
               (workers == 1 ? "its worker is" : "all " + counted(workers, "worker") + " are") +
               " started");
}

void note_success(round_memberships& memberships, const node& member) {
  if (has_succeeded(member.state)) memberships.succeed(*member.membership);
}

std::string whereabouts_of(const round_memberships& memberships, std::uint32_t world_size) {
  std::string_view daemon_host;
  for (const membership& one : memberships) {
    // An address at which other hosts have reached the daemon's host.
    daemon_host = one.holder()->local_address;
    if (!is_host_bound(daemon_host)) break;
  }
  std::vector<named_member> first;
  for (const membership& one : memberships) {
    if (first.size() == members_named_max) break;
    const node& member = *one.holder();
    first.push_back({member.label(),
                     known_address({member.greeting.address, member.greeting.own_address,
                                    member.peer_address, member.local_address},
                                   daemon_host),
                     one.rank_first(), member.greeting.worker_count});
  }
  return members_text(first, static_cast<std::uint32_t>(memberships.size()), world_size);
}

void run::state::assign_all() {
  const node& leader = memberships.leader();
  current.common.tether_port = leader.state.service_port;
  current.common.master_port =
      leader.state.master_port != 0 ? leader.state.master_port : leader.state.service_port;
  current.common.leader_node = leader.label();
  current.common.leader_data = leader.state.leader_data;
  current.has_placed = true;
  // What an earlier daemon has persisted counts only until a node is placed.
  persisted.drop();
  enter(phase, waiting, now, run_phase::running);
  age.begin_running(now);
  memberships.start_until(now + timing_of(current, groups).start_timeout);
  whereabouts.set(whereabouts_of(memberships, current.common.world_size));
  for (membership& one : memberships) {
    ddprun::desired value = base_desired(current, rounds, out, desired_phase::run);
    value.assignment = assignment_of(current, one);
    value.news = current.news;
    value.warning = current.warning;
    if (one.holder()->whereabouts_heard != whereabouts.edition()) {
      value.members = whereabouts.text();
    }
    memberships.command(one, command::run);
    out.want(*one.holder(), finished(std::move(value)));
  }
  forget_changes(current, nodes);
}

// A member's workers have failed, or have ended without being asked to.
void run::state::on_unasked_end(node& who) {
  if (!causes.get()) {
    const bool has_failed = who.membership->phase() == member_phase::failed;
    cause why = cause_of(rounds, who, has_failed ? cause_class::exit : cause_class::node_lost);
    if (has_failed) {
      why.code = 1;
      why.text = "the node did not say which worker failed";
    } else {
      // An agent that lost its lease kills its workers, and says so when it is back.
      why.text = "it stopped its workers by itself";
    }
    causes.add(why, real_now);
  }
  if (causes.get()->kind == cause_class::node_lost)
    remember_loss(phase, settle, now, timing_of(current, groups));
  if (waits_for_cause()) return;
  end_round(&*causes.get(), timing_of(current, groups).stop_grace, describe(*causes.get()));
}

// Whether to wait for the root cause. A stop would silence the worker that failed first and is
// still exiting.
bool run::state::waits_for_cause() {
  const duration limit = timing_of(current, groups).failure_grace;
  if (!causes.get()->is_secondary || phase != run_phase::running || limit <= duration::zero()) {
    return false;
  }
  if (phase.cause_grace().is_over(now)) return false;
  if (!phase.cause_grace().has_begun()) {
    out.note(note_level::info, describe(*causes.get()) +
                                   ": this follows from another failure; waiting up to " +
                                   to_text(limit) + " for that one to be reported (failure_grace)");
    waiting.change();
  }
  phase.cause_grace().begin(now, limit);
  // If all workers have ended, none is left to report it.
  return !phase.cause_grace().are_over(memberships.size(), [this](std::size_t group_rank) {
    const membership& one = memberships.begin()[static_cast<std::ptrdiff_t>(group_rank)];
    if (one.has_succeeded() || one.has_ended()) return true;
    const node* const member = one.holder();
    return member != nullptr && member->state.instance == current.id &&
           member->state.round == rounds.newest() && !member->state.ends.empty();
  });
}

void run::state::on_failure_grace_over() {
  end_round(&*causes.get(), timing_of(current, groups).stop_grace, describe(*causes.get()));
}

void run::state::join_restarts(const node& who) {
  if (phase != run_phase::running || current.settings->on_join != join_policy::restart) return;
  if (who.membership != nullptr || memberships.size() >= current.settings->nodes_max) return;
  // A round that is starting is not interrupted: the next heartbeat of the waiting node asks again.
  // Otherwise nodes that come back one by one, each late from the last stop, keep every round from
  // running.
  if (memberships.running() < memberships.size()) return;
  remember_loss(phase, settle, now, timing_of(current, groups));
  end_round(nullptr, timing_of(current, groups).drain_grace,
            who.label() + " joins: the round restarts with it",
            {.is_free = true, .is_ordinary = true});
}

// Losses, drains and joins come in groups, so the next choice waits for quiet after the last of
// them.
void remember_loss(const entered_phase& phase, settle_timer& settle, machine_time now,
                   const timers& timing) {
  settle.add_loss(now);
  if (phase == run_phase::settling && !settle.is_for_messages()) settle.wait_for_quiet(timing);
}

// A node that is still restoring data is not slow to start, and the workers of the others wait for
// it, so the timeout starts again for all.
void hear_restored(const entered_phase& phase, round_memberships& memberships, machine_time now,
                   duration start_timeout, const node& who, const status& before) {
  const status& said = who.state;
  const bool is_same_round = before.instance == said.instance && before.round == said.round;
  const std::uint64_t known = is_same_round ? before.restored : 0;
  if (phase != run_phase::running || said.phase != member_phase::starting) return;
  if (said.restored > known && memberships.start_deadline())
    memberships.start_until(now + start_timeout);
}

void run::state::on_start_timeout() {
  const membership* late = nullptr;
  std::size_t others = 0;
  for (const membership& one : memberships) {
    // Only the leader has been told anything so far.
    if (phase == run_phase::preparing && one.group_rank() != 0) continue;
    if (one.phase() >= member_phase::running) continue;
    if (late == nullptr) {
      late = &one;
    } else {
      ++others;
    }
  }
  memberships.end_start();
  if (late == nullptr) return;
  cause why = cause_of(rounds, *late->holder(), cause_class::start);
  const member_phase reached =
      phase == run_phase::preparing ? member_phase::preparing : late->phase();
  why.text = "has not started within " + to_text(timing_of(current, groups).start_timeout) +
             " (start_timeout), is still " + std::string(to_string(reached));
  if (others != 0)
    why.text += (others == 1 ? "; so is " : "; so are ") + counted(others, "more node");
  causes.add(why, real_now);
  end_round(&*causes.get(), timing_of(current, groups).stop_grace, describe(why));
}

void round_memberships::open(std::uint32_t size) {
  DDPRUN_ASSERT(memberships_.empty() && size != 0);
  *this = {};
  grow(size);
}

void round_memberships::grow(std::uint32_t size) {
  DDPRUN_ASSERT(size >= memberships_.size());
  const std::size_t more = size - memberships_.size();
  while (memberships_.size() < size)
    memberships_.emplace_back(static_cast<std::uint32_t>(memberships_.size()));
  unknown_ += more;
  unreachable_ += more;
  check();
}

membership& round_memberships::take(std::uint32_t group_rank, node& holder,
                                    std::uint32_t rank_first,
                                    const std::optional<role_ranks>& in_role) {
  DDPRUN_ASSERT(group_rank < memberships_.size() && is_free(group_rank) &&
                holder.membership == nullptr);
  membership& one = memberships_[group_rank];
  one.holder_ = &holder;
  one.rank_first_ = rank_first;
  one.in_role_ = in_role;
  holder.membership = &one;
  holder.last_group_rank = group_rank;
  --unknown_;
  set_liveness(one, worker_liveness::in_reach);
  return one;
}

void round_memberships::clear() {
  for (const membership& one : memberships_) {
    if (one.holder() != nullptr) one.holder()->membership = nullptr;
  }
  *this = {};
}

node& round_memberships::leader() const {
  DDPRUN_ASSERT(!memberships_.empty() && memberships_.front().holder() != nullptr);
  return *memberships_.front().holder();
}

bool round_memberships::advance(membership& one, member_phase next) {
  DDPRUN_ASSERT(one.phase_ < next);
  const bool was_running = one.phase_ >= member_phase::running;
  one.phase_ = next;
  if (next < member_phase::running || was_running) return false;
  ++running_;
  check();
  if (running_ < memberships_.size()) return false;
  start_until_.reset();
  return true;
}

void round_memberships::fall(membership& one, member_phase to) {
  DDPRUN_ASSERT(to > member_phase::succeeded);
  one.phase_ = to;
}

void round_memberships::succeed(membership& one) {
  if (std::exchange(one.has_succeeded_, true)) return;
  ++succeeded_;
  check();
}

void round_memberships::mark_unreachable(membership& one) {
  DDPRUN_ASSERT(one.command() == command::run && !one.has_ended());
  set_liveness(one, worker_liveness::unreachable);
  one.phase_ = member_phase::lost;
}

bool round_memberships::mark_reached(membership& one) {
  if (!one.is_unreachable()) return false;
  DDPRUN_ASSERT(one.holder() != nullptr);
  set_liveness(one, worker_liveness::in_reach);
  one.phase_ = member_phase::stopping;
  return true;
}

void round_memberships::mark_ended(membership& one) {
  if (one.is_unreachable()) mark_reached(one);
  if (one.liveness() != worker_liveness::dead) set_liveness(one, worker_liveness::ended);
  if (one.phase_ != member_phase::lost) one.phase_ = member_phase::stopped;
}

void round_memberships::mark_dead(membership& one) {
  if (one.holder() == nullptr && one.is_unreachable()) --unknown_;
  set_liveness(one, worker_liveness::dead);
}

bool round_memberships::acknowledge(membership& one) {
  return !std::exchange(one.has_acknowledged_, true);
}

std::size_t* round_memberships::count_of(worker_liveness one) {
  switch (one) {
    case worker_liveness::in_reach:
      return nullptr;
    case worker_liveness::unreachable:
      return &unreachable_;
    case worker_liveness::ended:
    case worker_liveness::dead:
      return &ended_;
  }
  return nullptr;
}

void round_memberships::set_liveness(membership& one, worker_liveness next) {
  if (std::size_t* const count = count_of(one.liveness_)) --*count;
  one.liveness_ = next;
  if (std::size_t* const count = count_of(next)) ++*count;
  check();
}

void round_memberships::check() const {
  DDPRUN_ASSERT(unknown_ <= unreachable_);
  DDPRUN_ASSERT(ended_ + unreachable_ <= memberships_.size());
  DDPRUN_ASSERT(running_ <= memberships_.size() && succeeded_ <= memberships_.size());
}

// Ranks that stand still on all nodes of a round: which of them hangs. DESIGN.md, rule 15.

namespace {

constexpr std::size_t sentence_bytes_max = 500;
constexpr std::string_view cannot_tell = "; cannot tell which rank hangs";

// The stall of a running member; none: its ranks move, or are not watched.
const std::optional<stall>& stall_of(const current_instance& current, const round_numbers& rounds,
                                     const membership& one) {
  static const std::optional<stall> none;
  const node* const member = one.holder();
  if (member == nullptr || member->connection == 0) return none;
  const status& said = member->state;
  const bool runs = said.instance == current.id && said.round == rounds.newest() &&
                    said.phase == member_phase::running;
  return runs ? said.stall : none;
}

// What nodes whose ranks stand still have said together.
struct common_stall {
  std::vector<stalled_ranks> ranks;
  stall_scope scope{true, false};
  duration stood = duration::max();

  // False: it has said nothing of its ranks, which may move.
  bool add(const std::optional<stall>& said, const membership& of) {
    if (!said) return false;
    auto own = within(said->ranks, of.rank_first(), of.holder()->greeting.worker_count);
    if (own.empty()) return false;
    stood = std::min(stood, said->age);
    // No person has set a learnt limit, so it counts only if some rank waits in a collective.
    scope.needs_waiting = scope.needs_waiting || said->is_learnt;
    std::move(own.begin(), own.end(), std::back_inserter(ranks));
    return true;
  }

  std::string sentence() const {
    return std::string(first_of(sentence_of(ranks), sentence_bytes_max));
  }
  std::string text(const std::string& whose) const {
    const std::string all = sentence();
    return "no rank of " + whose + " has moved for " + to_text(stood) +
           (all.empty() ? "" : ": " + all);
  }
};

// None: if one node has no stall, no rank can be named, because the others may be waiting for its
// ranks.
std::optional<common_stall> stall_of_all(const current_instance& current,
                                         const round_numbers& rounds,
                                         const round_memberships& memberships) {
  common_stall all;
  for (const membership& one : memberships) {
    if (one.has_succeeded()) continue;
    if (!all.add(stall_of(current, rounds, one), one)) return std::nullopt;
  }
  return all;
}

std::string hung_text(std::uint32_t rank, const std::string& text) {
  return "rank " + std::to_string(rank) + " hangs: " + text;
}

}  // namespace

// Called with each status, and costs nothing unless ranks stand still or have just moved again. A
// single node judges its own ranks.
void hear_stall(entered_phase& phase, const round_memberships& memberships, machine_time now,
                const node& who, const status& before) {
  if (phase != run_phase::running || memberships.size() == 1) return;
  if (who.state.stall) {
    phase.stalls().hear(now);
  } else if (before.stall) {
    phase.stalls().move();
  }
}

void run::state::look_at_stalls() {
  const auto found =
      phase == run_phase::running ? stall_of_all(current, rounds, memberships) : std::nullopt;
  if (!phase.stalls().look(found.has_value()) || !found || found->ranks.empty()) return;
  const std::string text = found->text("this run");
  if (const auto hung = rank_that_hangs(found->ranks, found->scope))
    return tell_hung(current, rounds, memberships, out, *hung, text);
  if (!found->sentence().empty()) out.note(note_level::warning, text + std::string(cannot_tell));
}

// While ranks move it costs a look at each member, at most.
std::optional<stall_view> stall_seen(const entered_phase& phase, const current_instance& current,
                                     const round_numbers& rounds,
                                     const round_memberships& memberships) {
  if (phase != run_phase::running) return std::nullopt;
  const auto view_of = [](const common_stall& seen, const std::string& whose) {
    const auto hung = rank_that_hangs(seen.ranks, seen.scope);
    const std::string text = seen.text(whose);
    return stall_view{hung, seen.stood,
                      hung ? hung_text(*hung, text) : text + std::string(cannot_tell)};
  };
  const auto all = stall_of_all(current, rounds, memberships);
  if (all && !all->ranks.empty()) return view_of(*all, "this run");
  for (const membership& one : memberships) {
    common_stall own;
    own.scope.sees_all = false;
    if (one.has_succeeded() || !own.add(stall_of(current, rounds, one), one)) continue;
    if (rank_that_hangs(own.ranks, own.scope)) return view_of(own, one.holder()->label());
  }
  return std::nullopt;
}

void tell_hung(const current_instance& current, const round_numbers& rounds,
               const round_memberships& memberships, outbox& out, std::uint32_t rank,
               const std::string& text) {
  for (const membership& one : memberships) {
    node* const member = one.holder();
    if (member == nullptr || one.has_succeeded()) continue;
    const bool is_its =
        rank >= one.rank_first() && rank - one.rank_first() < member->greeting.worker_count;
    // The leader's node says it, too, because that is where people look.
    if (!is_its && one.group_rank() != 0) continue;
    ddprun::desired value = base_desired(current, rounds, out, desired_phase::run);
    value.assignment = assignment_of(current, one);
    value.hung = hung_rank{rank, is_its ? text : hung_text(rank, text)};
    out.want(*member, finished(std::move(value)));
  }
  out.note(note_level::warning, hung_text(rank, text));
}

}  // namespace ddprun::core
