#include "rendezvous/core/agent/causes_here.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/base/utf8.hpp"
#include "rendezvous/core/messages/cause.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::core {

void causes_here::check() const {
  DDPRUN_ASSERT(seen_.size() <= causes_max);
  for (std::size_t i = 1; i < seen_.size(); ++i)
    DDPRUN_ASSERT(seen_[i].cause.tail.empty());
}

bool causes_here::add(cause why, time_point at) {
  auto where = seen_.begin();
  while (where != seen_.end() && !comes_before(why, at, where->cause, where->at))
    ++where;
  if (where == seen_.end() && seen_.size() >= causes_max) return false;
  const bool is_only_stopped = why.by_our_stop && !why.was_failing;
  if (where != seen_.begin() || is_only_stopped) why.tail.clear();
  why.tail.erase(0, why.tail.size() - last_of(why.tail, tail_bytes_max).size());
  if (where == seen_.begin()) connected();
  seen_.insert(where, seen_cause{std::move(why), at});
  if (seen_.size() > causes_max) seen_.pop_back();
  if (seen_.size() > 1) seen_[1].cause.tail.clear();
  check();
  return true;
}

void causes_here::connected() {
  tail_seq_ = 0;
  is_tail_told_ = false;
}

std::vector<cause> causes_here::tell(std::uint64_t seq, time_point now) {
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

void causes_here::answered(std::uint64_t seq) {
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
