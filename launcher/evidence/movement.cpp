#include "launcher/evidence/movement.hpp"

#include "launcher/evidence/worker_server.hpp"
#include "launcher/process/process_table.hpp"

#include <algorithm>
#include <unistd.h>

namespace ddprun::launcher::evidence {
namespace {

constexpr unsigned long long bytes_that_count = 64 * 1024;
constexpr unsigned long long processor_share = 20;  // one in so many
// The kernel rounds the user and the system time of each thread down. Between two looks a process
// is asked twice at most, of three records.
constexpr unsigned long long rounded_ticks = 8;

// Where the kernel does not count sleeps, only bytes show that one was another.
bool is_same_wait(const process_usage& before, const process_usage& now) {
  return before.waits && before.waits == now.waits &&
         (now.waits->sleeps || before.bytes == now.bytes);
}

}  // namespace

move move_between(const std::optional<process_usage>& before, const process_usage& now,
                  unsigned long long ticks_that_count) {
  if (!before) return move::other;
  if (now.state == 'D' && !is_same_wait(*before, now)) return move::other;
  if (now.bytes - before->bytes >= bytes_that_count) return move::other;
  return now.ticks - before->ticks >= ticks_that_count ? move::computed : move::none;
}

process_usage without_answers(process_usage used, unsigned long long answered,
                              const std::optional<process_usage>& before) {
  used.ticks -= std::min(used.ticks, answered);
  if (before) used.ticks = std::max(used.ticks, before->ticks);
  return used;
}

movement look_for_moves(const movement_question& asked, const movement& before) {
  movement now;
  now.at = std::chrono::steady_clock::now();
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now.at - before.at);
  const auto per_second = static_cast<unsigned long long>(::sysconf(_SC_CLK_TCK));
  const unsigned long long ticks_that_count = std::max(
      2ULL, per_second * static_cast<unsigned long long>(passed.count()) / 1000 / processor_share);
  const auto move_of = [&](pid_t pid) {
    process_usage used = usage_of(pid);
    if (used.state == '?') return move::none;
    const auto last = before.seen.find(pid);
    std::optional<process_usage> known;
    if (last != before.seen.end()) known = last->second;
    unsigned long long rounded = 0;
    if (asked.answerers.contains(pid)) {
      const auto answered = before.answering.find(pid);
      const unsigned long long until_then =
          answered == before.answering.end() ? 0 : answered->second;
      const unsigned long long until_now = ticks_of_threads(pid, server_thread_name);
      now.answering[pid] = std::max(until_then, until_now);
      used = without_answers(used, now.answering[pid], known);
      if (until_now > until_then) rounded = rounded_ticks;
    }
    now.seen[pid] = used;
    const move made = move_between(known, used, ticks_that_count + rounded);
    return made == move::computed && asked.by_steps.contains(pid) ? move::none : made;
  };
  const auto spins = [&](pid_t pid) {
    const auto sleeps = sleeps_of(pid);
    const auto thread = main_thread_stat_of(pid);
    if (!sleeps || !thread) return false;
    const main_thread_usage& used =
        now.threads[pid] = {*sleeps, thread->ticks, thread->state == 'R'};
    const auto last = before.threads.find(pid);
    if (last == before.threads.end()) return false;
    // The number of sleeps alone is not enough: one long sleep, while other threads compute, adds
    // none.
    const bool has_computed = used.ticks - last->second.ticks >= ticks_that_count;
    const bool was_awake = last->second.sleeps == used.sleeps || asked.asked.contains(pid);
    return used.is_running && last->second.is_running && has_computed && was_awake;
  };
  // The leaders whose children have to be looked at.
  std::set<pid_t> alone;
  for (const pid_t leader : asked.leaders) {
    const move made = move_of(leader);
    if (made != move::none) now.moved.insert(leader);
    if (made == move::computed && asked.asks_who_spins && spins(leader)) now.spins.insert(leader);
    if (made == move::none || now.spins.contains(leader)) alone.insert(leader);
  }
  if (alone.empty()) return now;
  // A child that moves shows that the worker is not just spinning.
  for (const process_entry& one : list_processes()) {
    if (one.dead || one.pid == one.group || !alone.contains(one.group)) continue;
    if (move_of(one.pid) == move::none) continue;
    now.moved.insert(one.group);
    now.spins.erase(one.group);
  }
  return now;
}

}  // namespace ddprun::launcher::evidence
