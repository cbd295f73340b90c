// A round at one node: the leader's service, the assignment, the spawn, ranks that stand still, and
// how the workers end.
#include "rendezvous/core/agent/local_round.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/agent/agent_state.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/validation.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddprun::core {

void agent::state::begin_round(round_number number) {
  replace_round(local_round(local.instance(), number, now));
  entered_instance = local.instance();
  entered_round = number;
}

void agent::state::replace_round(local_round next) {
  DDPRUN_ASSERT(local.has_nothing_on() && !local.has_service());
  local = std::move(next);
}

void agent::state::handle(const service_opened& event) {
  if (event.round != local.number() || local.phase() != member_phase::preparing) return;
  if (std::string problem = problem_of(event.leader_data); !problem.empty())
    return handle(service_failed{event.round, std::move(problem)});
  local.open_service(event.service_port, event.master_port, event.leader_data);
  changed = true;
}

void agent::state::handle(const service_failed& event) {
  if (event.round != local.number() || !local.has_service()) return;
  // The workers of this node are done or ending, so it is no failure of theirs.
  if (local.phase() == member_phase::stopping || local.phase() == member_phase::succeeded) {
    note(note_level::warning,
         "the job store of round " + std::to_string(local.number()) + " ended: " + event.text);
    return;
  }
  ddprun::cause why;
  why.kind = cause_class::start;
  why.text = event.text;
  local.lose_service();
  fail(std::move(why));
}

void agent::state::take_assignment(const desired& message) {
  const assignment value =
      message.assignment.value_or(assignment{});  // none: one that makes no sense
  changed = true;
  local.take_assignment(value, now);
  if (!message.members.empty()) whereabouts = message.members;
  const bool leads = value.group_rank == 0;
  const bool sound =
      value.group_rank < value.group_world_size && value.group_world_size <= nodes_per_run_max &&
      has_ranks_for(value, options.greeting.worker_count) &&
      (leads ? local.service_port() != 0 : value.tether_port != 0 && !value.master_address.empty());
  if (!sound) {
    ddprun::cause why;
    why.kind = cause_class::start;
    why.text = "the rendezvous daemon's assignment for round " + std::to_string(local.number()) +
               " is invalid: group rank " + std::to_string(value.group_rank) + " of " +
               std::to_string(value.group_world_size) + ", ranks from " +
               std::to_string(value.rank_first) + " of " + std::to_string(value.world_size);
    local.drop_assignment();
    fail(std::move(why));
    return;
  }
  if (leads) {
    spawn_when_leased();
  } else {
    // Workers start once the leader has acknowledged the tether.
    dial(duration::zero());
  }
}

// Workers are started only with a lease: an agent that stood still may read an assignment of a
// round that is long over.
void agent::state::spawn_when_leased() {
  const bool leader_acked = local.is_leader() || local.tether.leased_from();
  if (local.phase() != member_phase::assigned || !leader_acked ||
      !has_lease(local, daemon, timing, clock))
    return;
  changed = true;
  local.start(options.greeting.worker_count, now);
  emit(start_workers{local.instance(), local.number(), *local.assignment(), restarts_used,
                     restarts_forgiven, whereabouts});
}

// The next heartbeat reports it.
void agent::state::handle(const workers_restoring& event) {
  if (event.round == local.number() && local.phase() == member_phase::starting)
    local.restore(event.bytes);
}

void agent::state::handle(const workers_started& event) {
  if (event.round != local.number() || local.phase() != member_phase::starting) return;
  local.run();
  changed = true;
}

void agent::state::handle(const worker_ended& event) {
  const std::uint32_t unkillable = local.workers.unkillable();
  if (event.round != local.number() || !local.workers.end(event.local_rank)) return;
  if (local.workers.unkillable() != unkillable) changed = true;
  if (event.success) {
    // A worker that was asked to stop may save and exit with 0, but its work was not done.
    const bool is_asked = local.workers.are_asked();
    local.ends.set_well(event.local_rank, is_asked ? ending::stopped : ending::succeeded, now);
  } else {
    ddprun::cause why = event.cause;
    why.local_rank = event.local_rank;
    if (local.assignment()) why.rank = local.assignment()->rank_first + event.local_rank;
    worker_failed(std::move(why));
  }
  if (local.workers.living() > 0) return;
  const bool is_up =
      local.phase() == member_phase::starting || local.phase() == member_phase::running;
  if (local.workers.are_asked()) {
    after_workers();
  } else if (local.unclear.empty() && is_up) {
    local.succeed();
    changed = true;
    leave_if_drained();
  } else if (local.phase() == member_phase::failed) {
    changed = true;  // no worker is left that could report the root cause
  }
}

void agent::state::worker_failed(ddprun::cause why) {
  const time_point at = real_now - std::max(why.age, duration::zero());
  const bool is_struck = local.workers.are_struck() &&
                         is_end_by(why, SIGKILL);  // the guardian's kill, of which we learnt later
  const bool is_ours = is_struck || local.workers.are_asked_by(at);
  const bool is_drain = shutdown.is_draining() && is_end_by(why, shutdown.signal());
  if (!is_ours && !is_drain) {
    if (!shutdown.is_draining() && !local.workers.are_killed() && is_end_by_request(why)) {
      return local.unclear.add(std::move(why), clock);
    }
    // It may have died before the stop, and only the reading of its last output took longer: then
    // it is a failure.
    return fail_unless_asked(std::move(why));
  }
  why.by_our_stop = true;
  const bool is_kill = local.workers.are_killed() && is_end_by(why, SIGKILL);
  local.ends.set(why,
                 why.was_failing ? ending::failed
                 : is_kill       ? ending::killed
                                 : ending::stopped,
                 now);
  // One is enough to show that the stop arrived; more would only make the status long. It goes out
  // with the report that all have ended. But a worker that was failing already may be the root
  // cause.
  if (!local.causes.empty() && !why.was_failing) return;
  const bool has_news = changed;
  remember(std::move(why));
  changed = has_news;
}

// No signal has come to this node: somebody ended these workers alone.
void agent::state::take_as_failures() {
  for (ddprun::cause& one : local.unclear.take(real_now))
    fail_unless_asked(std::move(one));
}

// This node was asked to leave, and its workers got the same signal.
void agent::state::take_as_drain() {
  for (ddprun::cause& one : local.unclear.take(real_now)) {
    one.by_our_stop = is_end_by(one, shutdown.signal());
    local.ends.set(one, one.by_our_stop ? ending::stopped : ending::failed, now);
    if (!one.by_our_stop || local.causes.empty()) remember(std::move(one));
  }
}

void agent::state::fail_unless_asked(ddprun::cause why) {
  why.was_failing = false;
  local.ends.set(why, why.is_secondary ? ending::secondary : ending::failed, now);
  local.workers.are_asked() ? remember(std::move(why)) : fail(std::move(why));
}

// The other workers of this node run on until the daemon orders the stop, which is at once.
void agent::state::fail(ddprun::cause why) {
  remember(std::move(why));
  local.fail(now);
  check_health();
}

void agent::state::remember(ddprun::cause why) {
  const time_point at = real_now - std::clamp(why.age, duration::zero(), age_max);
  why.round = local.number();
  why.group_rank = local.assignment() ? local.assignment()->group_rank : 0;
  why.node = options.greeting.node;
  if (local.causes.add(std::move(why), at)) changed = true;
}

void agent::state::handle(const ranks_stalled& event) {
  if (event.round != local.number() || local.phase() != member_phase::running) return;
  if (local.stall.set(event.stall, real_now)) changed = true;
}

// The leader's node is told, too, because that is where people look. Its own ranks stand still, as
// those of all nodes do: its shell knows when that is over.
void agent::state::hear_hung(const desired& message) {
  const bool is_of_this = message.phase == desired_phase::run &&
                          message.instance == local.instance() && message.round == local.number();
  if (!message.hung || !is_of_this || local.phase() != member_phase::running) return;
  const std::uint32_t first = local.assignment()->rank_first;
  const std::uint32_t rank = message.hung->rank;
  const bool is_here = rank >= first && rank - first < options.greeting.worker_count;
  if (!is_here) note(note_level::warning, message.hung->text);
  emit(name_hung{local.number(), *message.hung, is_here});
}

bool local_round::is_leader() const {
  return phase_ == member_phase::preparing || (assignment_ && assignment_->group_rank == 0);
}

void local_round::prepare(std::uint32_t group_world_size) {
  DDPRUN_ASSERT(phase_ == member_phase::joined);
  phase_ = member_phase::preparing;
  group_world_size_ = group_world_size;
  has_service_ = true;
}

void local_round::open_service(std::uint16_t service_port, std::uint16_t master_port,
                               ddprun::leader_data data) {
  DDPRUN_ASSERT(phase_ == member_phase::preparing && has_service_);
  service_port_ = service_port;
  master_port_ = master_port;
  leader_data_ = std::move(data);
}

void local_round::lose_service() {
  has_service_ = false;
  service_port_ = 0;
}

bool local_round::close_service() {
  if (!has_service_) return false;
  lose_service();
  master_port_ = 0;
  leader_data_ = {};
  return true;
}

void local_round::take_assignment(const ddprun::assignment& value, machine_time now) {
  DDPRUN_ASSERT(phase_ == member_phase::joined || phase_ == member_phase::preparing);
  phase_ = member_phase::assigned;
  assignment_ = value;
  group_world_size_ = value.group_world_size;
  began_ = now;
}

void local_round::start(std::uint32_t worker_count, machine_time now) {
  DDPRUN_ASSERT(phase_ == member_phase::assigned && assignment_);
  phase_ = member_phase::starting;
  workers.start(worker_count);
  ends.begin(now);
}

void local_round::run() {
  DDPRUN_ASSERT(phase_ == member_phase::starting);
  phase_ = member_phase::running;
}

void local_round::succeed() {
  DDPRUN_ASSERT(phase_ == member_phase::starting || phase_ == member_phase::running);
  DDPRUN_ASSERT(workers.living() == 0 && unclear.empty());
  phase_ = member_phase::succeeded;
  has_succeeded_ = true;
}

void local_round::fail(machine_time now) {
  DDPRUN_ASSERT(is_on());
  if (phase_ == member_phase::failed) return;
  phase_ = member_phase::failed;
  failed_at_ = now;
}

void local_round::stop() {
  DDPRUN_ASSERT(is_on());
  phase_ = member_phase::stopping;
}

void local_round::end() {
  DDPRUN_ASSERT(is_on() && !has_service_);
  DDPRUN_ASSERT(workers.living() == workers.unkillable());
  phase_ = member_phase::stopped;
}

bool local_round::begin_check() {
  if (check_ != node_check::none || !is_on()) return false;
  check_ = node_check::under_way;
  return true;
}

bool local_round::end_check() {
  if (check_ != node_check::under_way) return false;
  check_ = node_check::over;
  return true;
}

void local_round::stay_out() {
  DDPRUN_ASSERT(has_nothing_on());
  phase_ = member_phase::stopped;
}

void local_round::tell(status& value) const {
  value.instance = instance_;
  value.round = number_;
  value.phase = phase_;
  value.service_port = service_port_;
  value.master_port = master_port_;
  value.leader_data = leader_data_;
  value.unkillable = workers.unkillable();
  if (phase_ == member_phase::starting) value.restored = restored_;
  value.succeeded = has_succeeded_ && phase_ == member_phase::stopped;
  if (assignment_ && workers.living() == 0) value.ends = ends.tell(assignment_->rank_first);
}

void local_causes::check() const {
  DDPRUN_ASSERT(seen_.size() <= causes_max);
  for (std::size_t i = 1; i < seen_.size(); ++i)
    DDPRUN_ASSERT(seen_[i].cause.tail.empty());
}

bool local_causes::add(cause why, time_point at) {
  auto where = seen_.begin();
  while (where != seen_.end() && !comes_before(why, at, where->cause, where->at))
    ++where;
  if (where == seen_.end() && seen_.size() >= causes_max) return false;
  // Only the likeliest cause has a tail, and the output of a worker that was only stopped explains
  // nothing.
  if (where != seen_.begin() || is_only_stopped(why)) why.tail.clear();
  why.tail.erase(0, why.tail.size() - last_of(why.tail, tail_bytes_max).size());
  // A new tail, which the daemon has not read yet.
  if (where == seen_.begin()) connected();
  seen_.insert(where, seen_cause{std::move(why), at});
  if (seen_.size() > causes_max) seen_.pop_back();
  // The cause that was first until now keeps no tail.
  if (seen_.size() > 1) seen_[1].cause.tail.clear();
  check();
  return true;
}

void local_causes::connected() {
  tail_seq_ = 0;
  is_tail_told_ = false;
}

std::vector<cause> local_causes::tell(std::uint64_t seq, time_point now) {
  std::vector<cause> told;
  for (const seen_cause& seen : seen_) {
    told.push_back(seen.cause);
    told.back().age = now - seen.at;
  }
  if (told.empty() || told.front().tail.empty()) return told;
  if (is_tail_told_) told.front().tail.clear();
  if (tail_seq_ == 0) tail_seq_ = seq;
  return told;
}

void local_causes::acked(std::uint64_t seq) {
  if (tail_seq_ != 0 && seq >= tail_seq_) is_tail_told_ = true;
}

void unclear_ends::add(cause why, const machine_clock& clock) {
  const time_point at = clock.real_now() - std::max(why.age, duration::zero());
  if (seen_.size() < causes_max) seen_.push_back(seen_cause{std::move(why), at});
  if (!until_) until_ = clock.now() + own_signal_wait;
}

std::vector<cause> unclear_ends::take(time_point now) {
  until_.reset();
  std::vector<cause> taken;
  for (seen_cause& one : std::exchange(seen_, {})) {
    one.cause.age = now - one.at;
    taken.push_back(std::move(one.cause));
  }
  return taken;
}

}  // namespace ddprun::core
