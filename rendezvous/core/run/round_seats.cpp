#include "rendezvous/core/run/round_seats.hpp"

#include "rendezvous/base/error.hpp"
#include "rendezvous/core/run/node.hpp"

#include <utility>

namespace ddprun::core {

void round_seats::open(std::uint32_t size) {
  DDPRUN_ASSERT(seats_.empty() && size != 0);
  *this = {};
  grow(size);
}

void round_seats::grow(std::uint32_t size) {
  DDPRUN_ASSERT(size >= seats_.size());
  const std::size_t more = size - seats_.size();
  while (seats_.size() < size)
    seats_.emplace_back(static_cast<std::uint32_t>(seats_.size()));
  unknown_ += more;
  unreachable_ += more;
  check();
}

seat& round_seats::take(std::uint32_t slot, node& holder, std::uint32_t rank_first,
                        const std::optional<role_ranks>& in_role) {
  DDPRUN_ASSERT(slot < seats_.size() && is_free(slot) && holder.seat == nullptr);
  seat& one = seats_[slot];
  one.holder_ = &holder;
  one.rank_first_ = rank_first;
  one.in_role_ = in_role;
  holder.seat = &one;
  holder.last_slot = slot;
  --unknown_;
  set_fate(one, fate::in_reach);
  return one;
}

void round_seats::clear() {
  for (const seat& one : seats_) {
    if (one.holder() != nullptr) one.holder()->seat = nullptr;
  }
  *this = {};
}

node& round_seats::leader() const {
  DDPRUN_ASSERT(!seats_.empty() && !is_free(0));
  return *seats_.front().holder();
}

bool round_seats::advance(seat& one, member_phase next) {
  DDPRUN_ASSERT(one.phase_ < next);
  const bool was_running = one.phase_ >= member_phase::running;
  one.phase_ = next;
  if (next < member_phase::running || was_running) return false;
  ++running_;
  check();
  if (running_ < seats_.size()) return false;
  start_until_.reset();
  return true;
}

void round_seats::fall(seat& one, member_phase to) {
  DDPRUN_ASSERT(to > member_phase::succeeded);
  one.phase_ = to;
}

void round_seats::succeed(seat& one) {
  if (std::exchange(one.has_succeeded_, true)) return;
  ++succeeded_;
  check();
}

void round_seats::mark_unreachable(seat& one) {
  DDPRUN_ASSERT(one.command() == command::run && !one.has_ended());
  set_fate(one, fate::unreachable);
  one.phase_ = member_phase::lost;
}

bool round_seats::mark_reached(seat& one) {
  if (!one.is_unreachable()) return false;
  DDPRUN_ASSERT(one.holder() != nullptr);
  set_fate(one, fate::in_reach);
  one.phase_ = member_phase::stopping;
  return true;
}

void round_seats::mark_ended(seat& one) {
  if (one.is_unreachable()) mark_reached(one);
  if (one.fate() != fate::dead) set_fate(one, fate::ended);
  if (one.phase_ != member_phase::lost) one.phase_ = member_phase::stopped;
}

void round_seats::mark_dead(seat& one) {
  set_fate(one, fate::dead);
}

bool round_seats::acknowledge(seat& one) {
  return !std::exchange(one.has_acknowledged_, true);
}

std::size_t* round_seats::count_of(fate one) {
  switch (one) {
    case fate::in_reach:
      return nullptr;
    case fate::unreachable:
      return &unreachable_;
    case fate::ended:
    case fate::dead:
      return &ended_;
  }
  return nullptr;
}

void round_seats::set_fate(seat& one, fate next) {
  if (std::size_t* const count = count_of(one.fate_)) --*count;
  one.fate_ = next;
  if (std::size_t* const count = count_of(next)) ++*count;
  check();
}

void round_seats::check() const {
  DDPRUN_ASSERT(unknown_ <= unreachable_);
  DDPRUN_ASSERT(ended_ + unreachable_ <= seats_.size());
  DDPRUN_ASSERT(running_ <= seats_.size() && succeeded_ <= seats_.size());
}

}  // namespace ddprun::core
