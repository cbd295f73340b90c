// How workers end: drained, their groups and strays killed, the last word held back until then.
#include "launcher/process/worker_group_state.hpp"

#include <csignal>

namespace ddprun {
namespace {

// A look at what is dying costs little beside the time that it has taken so far.
constexpr int look_share = 8;
constexpr std::chrono::milliseconds look_pause_min{1};
constexpr std::chrono::milliseconds look_pause_max{1000};

using clock = std::chrono::steady_clock;

}  // namespace

void worker_group::state::release(worker& one) {
  for (auto& source : one.sources) {
    if (source == 0) continue;
    const log_mux::remainder left = mux.release(std::exchange(source, 0));
    if (!left.at_end) one.end.drained = false;
    one.end.lost.add(left.lost);
  }
}

void worker_group::state::hurry(const worker& one) {
  for (const auto source : one.sources)
    mux.hurry(source);
}

// Since the worker's end.
clock::duration worker_group::state::held_back(const worker& one) const {
  clock::duration longest{};
  for (int index = 0; index < 2; ++index) {
    if (one.sources[index] == 0) continue;
    longest = std::max(longest, mux.waited(one.sources[index]) - one.held_back[index]);
  }
  return longest;
}

void worker_group::state::on_exit(worker& one, exit_status status) {
  const auto self = shared_from_this();
  one.phase = worker_phase::draining;
  one.end.status = status;
  one.end.ended_at = clock::now();
  for (int index = 0; index < 2; ++index)
    one.held_back[index] = mux.waited(one.sources[index]);
  if (!status.success() || stopping) {
    spawner_.signal_group(one.pid, SIGKILL);
    hurry(one);
  }
  wait(one, settings.drain_limit, &state::on_drain_limit);
  check_drained(one);
  if (stopping) look_anew();  // strays may hold the pipes
}

void worker_group::state::on_drain_limit(worker& one) {
  if (one.phase != worker_phase::draining) return;
  if (one.end.status.success() && !stopping) {
    // Our own reader holds the output back, and nobody waits for this node: no byte is given up.
    if (reads_blocked(one)) return wait(one, settings.drain_limit, &state::on_drain_limit);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        settings.drain_limit + held_back(one) - (clock::now() - one.end.ended_at));
    if (left.count() > 0) return wait(one, left, &state::on_drain_limit);
  }
  release(one);
  end_group(one);
}

void worker_group::state::check_drained(worker& one) {
  if (one.phase != worker_phase::draining) return;
  if (one.sources[0] == 0 && one.sources[1] == 0) end_group(one);
}

// The leader is a zombie here, so the group's number is still ours.
void worker_group::state::end_group(worker& one) {
  one.phase = worker_phase::dying;
  spawner_.signal_group(one.pid, SIGKILL);
  spawner_.reap(one.pid);
  look_anew();
}

void worker_group::state::look_anew() {
  look_since = clock::now();
  look();
}

// One look for all that is dying. Almost always the first finds nobody. Children that were just
// killed need a moment, on a device a long one, and no handle tells when the last of a group is
// gone.
void worker_group::state::look() {
  const auto self = shared_from_this();
  std::vector<std::shared_ptr<worker>> dying;
  std::vector<pid_t> groups;
  for (const auto& one : workers) {
    if (one->phase != worker_phase::dying) continue;
    dying.push_back(one);
    groups.push_back(one->pid);
  }
  if (!groups.empty()) groups = spawner_.living_groups(groups);
  for (const auto& one : dying) {
    if (std::find(groups.begin(), groups.end(), one->pid) == groups.end()) on_dead(*one);
  }
  const bool strays_live = has_strays();
  if (is_last() && !strays_live) return tell_last();
  const bool killing_some = killing && any_in(worker_phase::starting, worker_phase::draining);
  if (!groups.empty() || strays_live || killing_some) look_again();
}

// Kills them, once they may be: they belong to the round, and a worker that runs may want them.
bool worker_group::state::has_strays() {
  const bool none_runs = !any_in(worker_phase::starting, worker_phase::running);
  const auto so_far = clock::now() - look_since;
  // The ends of many workers that are killed at once do not each ask for all.
  const bool all_must_die = killing && so_far >= look_pause_min;
  if (strays == nullptr || !(all_must_die || is_last() || (stopping && none_runs))) return false;
  const std::vector<pid_t> left = strays->kill_strays();
  if (left.empty() || so_far < settings.stray_limit) return !left.empty();
  if (is_last() && !std::exchange(named_strays, true)) {
    const auto to = handlers;
    if (to->strays_stay) to->strays_stay(left);
  }
  return stopping;
}

void worker_group::state::look_again() {
  const auto so_far =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - look_since);
  look_timer.expires_after(std::clamp(so_far / look_share, look_pause_min, look_pause_max));
  look_timer.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!error && self) self->look();
  });
}

void worker_group::state::on_dead(worker& one) {
  one.phase = worker_phase::done;
  one.timer.cancel();
  if (guardian_ != nullptr) guardian_->remove(one.pid);
  one.end.local_rank = one.command.local_rank;
  one.end.rank = one.command.rank;
  one.end.pid = one.pid;
  one.end.tail = one.tail.text();
  tell([end = one.end](const events& to) {
    if (to.ended) to.ended(end);
  });
}

void worker_group::state::tell(std::function<void(const events&)> word) {
  if (--untold == 0) {
    last_word = std::move(word);
    return;
  }
  const auto to = handlers;
  word(*to);
}

void worker_group::state::tell_last() {
  look_timer.cancel();
  const auto self = shared_from_this();
  const auto to = handlers;
  std::exchange(last_word, nullptr)(*to);
  const auto then = handlers;  // others, if that destroyed the group
  if (then->all_ended) then->all_ended();
}

void worker_group::state::wait(worker& one, std::chrono::milliseconds time,
                               void (state::*then)(worker&)) {
  const auto place =
      std::find_if(workers.begin(), workers.end(), [&](const auto& w) { return w.get() == &one; });
  one.timer.expires_after(time);
  one.timer.async_wait([weak = weak_from_this(), kept = *place, then](error_code error) {
    const auto self = weak.lock();
    if (!error && self) ((*self).*then)(*kept);
  });
}

}  // namespace ddprun
