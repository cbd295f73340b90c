// Whose lease keeps this node's workers alive: both ends of the tether, and what changes when
// nobody renews a lease.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/time.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::core {

struct agent_options;
class daemon_link;
class local_round;

// The member's end of the tether: the connection to the leader, which renews this node's lease.
//
//   stage     becomes   by
//   off       dialling  dial (the first)
//   dialling  idle      answered (the hello)
//   idle      beating   beat
//   beating   idle      answered (the beat)
//   any       dialling  dial (after it failed or was silent)
//   any       off       let_go
//
// A beat is sent only once the last one was acknowledged, and counts from when it was sent.

class tether_link {
 public:
  using moment = std::optional<time_point>;

  void dial(time_point now, duration delay);
  // Returns how long to wait before the next dial, without the jitter.
  duration failed(std::string text, duration heartbeat_interval);
  // The connection broke, so no ack for an older hello can come on it.
  void broke(time_point now) { hello_since_ = now; }
  void let_go() { stage_ = stage::off; }

  // The next beat is sent. Returns its number, which is used once in a round.
  std::uint64_t beat(time_point now);
  // An ack for the beat `seq`, or for the hello (0). False: nothing waits for it.
  bool acked(std::uint64_t seq, time_point now, duration heartbeat_interval);

  bool is_wanted() const { return stage_ != stage::off; }
  // When the next beat is due; none: a dial or a beat is under way.
  moment beat_deadline() const;
  // When the dial or beat that is under way has been without an ack for too long.
  moment silence_deadline(duration limit) const;
  moment deadline(duration limit) const;
  // When the newest beat that was acknowledged was sent: the lease counts from then.
  const moment& leased_from() const { return leased_from_; }
  // When the newest ack came.
  const moment& acked_at() const { return acked_at_; }
  const std::string& error() const { return error_; }

 private:
  enum class stage { off, dialling, idle, beating };

  stage stage_ = stage::off;
  time_point asked_at_;     // when the newest dial or beat was sent
  time_point hello_since_;  // when the oldest hello was sent that may still be acknowledged
  time_point beat_due_;
  std::uint64_t beat_seq_ = 0;
  unsigned attempts_ = 0;
  std::string error_;
  moment leased_from_;
  moment acked_at_;
};

// The leader's end of the tethers: which members of its round depend on this node, and how far
// their tethers renew its lease.
//
// A beat says that its sender got the previous ack, so it renews this node's lease from when that
// ack was given.
//
// Always: a group rank has one agent for the whole round, and at most one open tether, its newest.

class held_tethers {
 public:
  using moment = std::optional<time_point>;

  // Whether another agent has this group rank in the round.
  bool is_other(const tether_hello& hello) const;
  // A member's tether has come. Returns the one that it replaces, if that is still open.
  std::optional<std::uint64_t> attach(std::uint64_t tether, const tether_hello& hello);
  void detach(std::uint64_t tether) { open_.erase(tether); }
  // The newest hello or beat on this tether is acknowledged now.
  void ack(std::uint64_t tether, time_point now);
  enum class beat_kind { old, heard, renews };
  // `renews`: the beat renews the lease, from a later moment than before.
  beat_kind beat(std::uint64_t tether, const tether_beat& beat, time_point now);
  // Drops all open tethers. False: there was none.
  bool let_go();

  // The moment from which the leases count that `members` members have all given; none: fewer have
  // ever given one.
  moment leased_from(std::uint32_t members) const;
  // For each member whose newest ack was given at `moment` or before: its age, the oldest first. At
  // most tether_ages_max.
  std::vector<tether_age> acks_before(time_point moment, time_point now) const;
  std::size_t open() const { return open_.size(); }
  // The newest beat of a member whose workers have not all succeeded.
  const moment& needed_at() const { return needed_at_; }

 private:
  struct open_tether {
    std::uint32_t group_rank = 0;
    std::uint64_t beat_seq = 0;
    moment acked;  // when its newest hello or beat was acknowledged; none: it was not
  };
  struct group_rank_holder {
    session_id session;
    std::optional<std::uint64_t> tether;  // its newest, which may have ended
    moment leased_from;
    moment acked;  // the newest on any of its tethers
  };

  std::map<std::uint64_t, open_tether> open_;
  std::map<std::uint32_t, group_rank_holder> by_group_rank_;
  std::set<std::pair<time_point, std::uint32_t>> by_age_;  // group ranks that ever gave a lease
  moment needed_at_;
};

// What changes when workers must end because no peer renews their lease.

class isolation_state {
 public:
  using moment = std::optional<time_point>;

  // The tethers are let go: the other members have renewed the lease until now, and will not again.
  void freeze(const moment& others) {
    if (!frozen_) frozen_ = others;
  }
  const moment& frozen() const { return frozen_; }

  // After a late loop the workers are not ended before `until`. This happens once, until the lease
  // has been renewed in time.
  void put_off(time_point until) {
    if (!put_off_until_) put_off_until_ = until;
  }
  void renewed_in_time() { put_off_until_.reset(); }
  moment put_off_from(const moment& due) const {
    return due && put_off_until_ ? std::max(*due, *put_off_until_) : due;
  }

  // The workers were asked to end, because there has long been no daemon.
  void ask() { is_asked_ = true; }
  bool is_asked() const { return is_asked_; }

 private:
  moment frozen_;
  moment put_off_until_;
  bool is_asked_ = false;
};

// Both ends of the tether.

session_id own_tether_session(const agent_options& options);
// When a leader that cannot be reached fails the round at this node.
std::optional<machine_time> reach_deadline(const local_round& local, const timers& timing);
bool accepts_tethers(const local_round& local);
// Empty: the leader takes this tether. `node`: the name of this node.
std::string why_not_held(const local_round& local, const std::string& node,
                         const tether_hello& hello);
std::vector<tether_age> stale_tethers(const local_round& local, const timers& timing,
                                      time_point now);

// Which lease this node has, and when its workers must end.

// How long a lease lasts, by this node's clock.
duration lease_limit(const timers& timing);
duration silence_limit(const timers& timing);
std::optional<time_point> lease_of_round(const local_round& local, time_point now);
std::optional<time_point> lease_of(const local_round& local, const daemon_link& daemon,
                                   time_point now);
bool has_lease(const local_round& local, const daemon_link& daemon, const timers& timing,
               const machine_clock& clock);
bool has_lapsed(const local_round& local, const daemon_link& daemon, const timers& timing,
                const machine_clock& clock);
std::optional<time_point> isolation_due(const local_round& local, const daemon_link& daemon,
                                        const timers& timing, const machine_clock& clock);
std::optional<time_point> orphan_due(const local_round& local, const daemon_link& daemon,
                                     const timers& timing, const machine_clock& clock);
// The earlier of both, unless a late loop has put it off.
std::optional<time_point> isolation_deadline(const local_round& local, const daemon_link& daemon,
                                             const timers& timing, const machine_clock& clock);

}  // namespace ddprun::core
