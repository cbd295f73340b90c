// The newest round: its memberships, how long it has run, whether its ranks stand still, and
// whether a failure waits for its root cause.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/messages/settings.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace ddprun::core {

struct current_instance;
class entered_phase;
struct node;
class outbox;
class round_numbers;
class settle_timer;
struct stall_view;
class wait_message;

// A membership is a member's position in the newest round, and the state of the member in it. Each
// round has new memberships. After a restart of the daemon the holder may be unknown.
//
// Its rules are those of round_memberships, which alone changes it.

// What the holder was told to do in the round.
enum class command { none, prepare, run };

// Whether workers of the round may live at this membership, and how that is known.
enum class worker_liveness {
  in_reach,     // they may live, and their node says so itself
  unreachable,  // they may live, but their node does not say so: it is lost, or has never come
  ended,        // none lives
  dead,         // none lives, proven by a goodbye or a guardian
};

class membership {
 public:
  explicit membership(std::uint32_t group_rank) : group_rank_(group_rank) {}

  std::uint32_t group_rank() const { return group_rank_; }
  node* holder() const { return holder_; }  // null: not known
  std::uint32_t rank_first() const { return rank_first_; }
  const std::optional<role_ranks>& in_role() const { return in_role_; }
  core::command command() const { return command_; }
  member_phase phase() const { return phase_; }
  worker_liveness liveness() const { return liveness_; }
  bool is_unreachable() const { return liveness_ == worker_liveness::unreachable; }
  bool has_ended() const {
    return liveness_ == worker_liveness::ended || liveness_ == worker_liveness::dead;
  }
  bool has_succeeded() const { return has_succeeded_; }  // final, whatever the liveness
  bool has_acknowledged() const { return has_acknowledged_; }
  // Declared lost, and not back since.
  bool is_away() const { return is_away_; }
  // Has not begun to stop for longer than any stop can take: it gets no acks until it has, so that
  // it isolates itself.
  bool is_unacked() const { return is_unacked_; }

 private:
  friend class round_memberships;

  std::uint32_t group_rank_;
  node* holder_ = nullptr;
  std::uint32_t rank_first_ = 0;
  std::optional<role_ranks> in_role_;
  core::command command_ = core::command::none;
  member_phase phase_ = member_phase::joined;
  worker_liveness liveness_ = worker_liveness::unreachable;
  bool has_succeeded_ = false;
  bool has_acknowledged_ = false;
  bool is_away_ = false;
  bool is_unacked_ = false;
};

// The memberships of the newest round, by group rank: who holds them, and how far each has come.
// Membership 0 is the leader's.
//
//   liveness     becomes                    by
//   unreachable  in_reach                   take (a holder is known), mark_reached
//   in_reach     unreachable, ended, dead   mark_unreachable, mark_ended, mark_dead
//   unreachable  ended, dead                mark_ended, mark_dead
//   ended        dead                       mark_dead
//
// Always: every membership has one liveness, and how many have which is counted here, never
// scanned. A membership whose holder is not known is unreachable, or dead; a holder knows its
// membership.
//
// Ownership: owns the memberships, not their holders. A reference to one is valid until `clear`.
class round_memberships {
 public:
  // A new round of `size` memberships, whose holders are not known yet.
  void open(std::uint32_t size);
  // The round has more members than was known; no membership is lost.
  void grow(std::uint32_t size);
  // Gives this free membership to `holder`, which is to run ranks from `rank_first` on.
  membership& take(std::uint32_t group_rank, node& holder, std::uint32_t rank_first = 0,
                   const std::optional<role_ranks>& in_role = std::nullopt);
  // The round is over: no node has a membership.
  void clear();

  bool empty() const { return memberships_.empty(); }
  std::size_t size() const { return memberships_.size(); }
  std::deque<membership>::iterator begin() { return memberships_.begin(); }
  std::deque<membership>::iterator end() { return memberships_.end(); }
  std::deque<membership>::const_iterator begin() const { return memberships_.begin(); }
  std::deque<membership>::const_iterator end() const { return memberships_.end(); }
  bool is_free(std::uint32_t group_rank) const {
    return memberships_[group_rank].holder() == nullptr && !memberships_[group_rank].has_ended();
  }
  bool is_unreachable(std::uint32_t group_rank) const {
    return group_rank < memberships_.size() && memberships_[group_rank].is_unreachable();
  }
  node& leader() const;  // must be known

  // Memberships whose holder is not known, nor known to be dead.
  std::size_t unknown() const { return unknown_; }
  // Members all of whose workers run, or have run. The number never falls.
  std::size_t running() const { return running_; }
  std::size_t succeeded() const { return succeeded_; }
  std::size_t unreachable() const { return unreachable_; }
  // For every membership, the workers have ended or cannot be reached.
  bool are_all_ended_or_unreachable() const { return ended_ + unreachable_ == memberships_.size(); }

  // All workers must run by then; cleared when they do.
  void start_until(machine_time moment) { start_until_ = moment; }
  void end_start() { start_until_.reset(); }
  const std::optional<machine_time>& start_deadline() const { return start_until_; }

  void command(membership& one, core::command what) { one.command_ = what; }
  // Only while the round is on, and only forward. True: now all members run.
  bool advance(membership& one, member_phase next);
  // Its workers failed, stopped or were lost.
  void fall(membership& one, member_phase to);
  void succeed(membership& one);

  // The transitions of the table above; repeating one changes nothing. Only a member that was told
  // to run and has not ended becomes unreachable.
  void mark_unreachable(membership& one);
  bool mark_reached(membership& one);  // true: it was unreachable
  void mark_ended(membership& one);
  void mark_dead(membership& one);
  bool acknowledge(membership& one);  // true the first time
  void set_away(membership& one, bool is_away) { one.is_away_ = is_away; }
  void set_unacked(membership& one, bool is_unacked) { one.is_unacked_ = is_unacked; }

 private:
  void set_liveness(membership& one, worker_liveness next);
  std::size_t* count_of(worker_liveness one);
  void check() const;

  std::deque<membership> memberships_;
  std::size_t unknown_ = 0;
  std::size_t running_ = 0;
  std::size_t succeeded_ = 0;
  std::size_t unreachable_ = 0;
  std::size_t ended_ = 0;  // including dead ones
  std::optional<machine_time> start_until_;
};

// How long the newest round has run, and so whether a failure that ends it is quick: it comes
// within `startup_window` after all workers ran, or before that. Each round has a new one.
class round_age {
 public:
  // The round is being prepared.
  void begin(machine_time now) {
    *this = {};
    began_ = now;
  }
  // The round is an earlier daemon's. It may have run for hours, so its end is never a quick one.
  // `since`: when its workers could start; none: none was started, as far as is known.
  void begin_found(const std::optional<machine_time>& since) {
    *this = {};
    ran_since_ = since;
  }
  // Its workers can start now.
  void begin_running(machine_time now) {
    begin(now);
    ran_since_ = now;
  }
  void all_run(machine_time now) { all_run_since_ = now; }

  // How long it has been since its workers could start; zero: they could not.
  duration lasted(machine_time now) const {
    return ran_since_ ? now - *ran_since_ : duration::zero();
  }

  const std::optional<machine_time>& all_run_since() const { return all_run_since_; }
  // If the round ends quickly now: how long after its start. A round that did not start in time has
  // not failed quickly either.
  std::optional<duration> quick_end(machine_time now, const timers& timing) const {
    if (!began_) return std::nullopt;
    const duration passed = now - all_run_since_.value_or(*began_);
    const duration limit = all_run_since_ ? timing.startup_window : timing.start_timeout;
    if (passed >= limit) return std::nullopt;
    return passed;
  }

 private:
  std::optional<machine_time> began_;
  std::optional<machine_time> ran_since_;
  std::optional<machine_time> all_run_since_;
};

// Which ranks are where in the newest round, in words. A member is told again only if that has
// changed since it last heard; after a restart with the same nodes it has not.
class round_whereabouts {
 public:
  void set(std::string text) {
    if (text == text_) return;
    text_ = std::move(text);
    ++edition_;
  }
  const std::string& text() const { return text_; }
  std::uint64_t edition() const { return edition_; }  // from 1 on

 private:
  std::string text_;
  std::uint64_t edition_ = 0;
};

// When the run compares ranks that stand still, and whether it has announced a hang.

// From a member's report until all members are compared, because the others' reports are under way.
inline constexpr duration stall_pause = std::chrono::seconds(1);

class round_stalls {
 public:
  // A member has said that its ranks stand still.
  void hear(machine_time now) {
    if (!look_at_) look_at_ = now + stall_pause;
  }
  // Ranks of a member have moved again.
  void move() { is_said_ = false; }
  const std::optional<machine_time>& deadline() const { return look_at_; }

  // The members were compared. True: all stand still, and it has not been announced since one last
  // moved.
  bool look(bool do_all_stand) {
    look_at_.reset();
    const bool is_new = do_all_stand && !is_said_;
    is_said_ = do_all_stand;
    return is_new;
  }

 private:
  std::optional<machine_time> look_at_;
  bool is_said_ = false;
};

// How long a round goes on after a secondary failure, so that the root cause can be reported first:
// a worker that cleans up before it exits is reported last.
class failure_grace {
 public:
  // Counts from the first secondary failure; further ones do not prolong it.
  void begin(machine_time now, duration limit) {
    if (!until_) until_ = now + limit;
  }
  void end() { *this = {}; }

  bool has_begun() const { return until_.has_value(); }
  const std::optional<machine_time>& until() const { return until_; }
  bool is_over(machine_time now) const { return until_ && now >= *until_; }

  // Whether no membership has a worker left that could report the root cause. A membership for
  // which `is_over` was true is not asked about again.
  template <typename IsOver>
  bool are_over(std::size_t memberships, IsOver is_over) {
    while (ranks_over_ < memberships && is_over(ranks_over_))
      ++ranks_over_;
    return ranks_over_ == memberships;
  }

 private:
  std::optional<machine_time> until_;
  std::size_t ranks_over_ = 0;
};

// How far the newest round is, and what its members report.

std::string whereabouts_of(const round_memberships& memberships, std::uint32_t world_size);
bool is_prepared(const current_instance& current, const round_numbers& rounds,
                 const round_memberships& memberships);
void note_success(round_memberships& memberships, const node& member);
void remember_loss(const entered_phase& phase, settle_timer& settle, machine_time now,
                   const timers& timing);
void hear_stall(entered_phase& phase, const round_memberships& memberships, machine_time now,
                const node& who, const status& before);
void hear_restored(const entered_phase& phase, round_memberships& memberships, machine_time now,
                   duration start_timeout, const node& who, const status& before);
// What people are shown of it.
std::optional<stall_view> stall_seen(const entered_phase& phase, const current_instance& current,
                                     const round_numbers& rounds,
                                     const round_memberships& memberships);
void tell_hung(const current_instance& current, const round_numbers& rounds,
               const round_memberships& memberships, outbox& out, std::uint32_t rank,
               const std::string& text);
void on_all_started(const current_instance& current, round_numbers& rounds, round_age& age,
                    wait_message& waiting, machine_time now, outbox& out);

}  // namespace ddprun::core
