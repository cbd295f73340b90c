// The instances of a run: the current one, the closed ones, and what may still live of them.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/base/shared_list.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/record.hpp"
#include "rendezvous/core/run/restarts.hpp"
#include "rendezvous/core/run/run_record.hpp"
#include "rendezvous/core/run/waiting.hpp"

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ddprun::core {

class entered_phase;
struct headcount;
struct node;
class outbox;
class persisted_run;
class roster;
class round_memberships;
class round_numbers;
class round_stop;
struct run_options;
class wait_message;

// The closed instances of a run, newest first: how each ended, which nodes still have to be told,
// and which may have living workers.
//
// Always: at most closed_instances_max of them; each is dropped after closed_memory, in real time,
// because what happens on other hosts does not wait for this daemon's loop.

inline constexpr std::size_t closed_instances_max = 64;
inline constexpr duration closed_memory = std::chrono::hours(1);

// What the round that was left last leaves behind: the members that had succeeded, and those that
// could not be reached when it was given up, whose workers may live on.
struct leftovers {
  round_number round = 0;
  std::set<std::uint32_t> succeeded;  // group ranks
  std::set<session_id> sessions;
  std::size_t unknown = 0;  // members whose session a restarted daemon does not know
  members_by_name members;  // of a round known only from a record; otherwise empty
  time_point until{};       // after this none of their workers lives
  bool is_held = false;     // no member has let go: until orphan_limit they may hold each other
  duration let_go_limit{};  // from when one lets go until all must be gone

  // This member reports that its workers have succeeded. True: so have all of its round, if that is
  // the newest.
  bool complete_success(const status& said);
  // The workers of one member are gone, and its tethers keep no other alive.
  void let_go(time_point now);
  // `until`; a moment in the past if all members are back.
  time_point living_until() const;
};

struct closed_instance {
  instance_id instance = 0;
  int exit_code = 0;
  std::optional<cause> why;
  std::string text;
  round_number round = 0;
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_forgiven = 0;
  time_point closed_at{};
  std::optional<started_job> job;  // that opened it
  std::set<session_id> absent;     // sessions that have not been told, or have not said goodbye
  leftovers left;

  bool is_old(time_point now) const { return now - closed_at >= closed_memory; }
};

class closed_instances {
 public:
  void add(closed_instance newest);
  void forget_old(time_point now);

  bool empty() const { return closed_.empty(); }
  std::size_t size() const { return closed_.size(); }
  const closed_instance& newest() const;
  bool are_all_old(time_point now) const;
  std::size_t absent_count() const;  // sessions, over all of them

  // The instance that the sender of this hello belongs to, because it says so, or because its
  // session was away at the close: it may have been lost before it was told of any instance. Null:
  // not known, or old.
  closed_instance* of(const hello& greeting, time_point now);
  void said_goodbye(const session_id& session);  // it has been told

  // This session of the instance need not be waited for as unreachable any longer. `has_let_go`:
  // its workers are gone, and its tethers keep no other member alive.
  void take_out(const session_id& session, instance_id instance, bool has_let_go, time_point now);
  // Whether a member of that closed instance has let go of its tethers.
  bool has_let_go(instance_id instance) const;
  // The run no longer waits for those that were left behind.
  void forget_living();
  // A node of that name (lasting_name) is a candidate from now on, or no longer.
  void count(const std::string& name, bool is_here);
  // After this moment no worker that was left behind lives.
  time_point living_until() const;
  // The leftovers of the only closed instance of which workers may live. Null: there is none, or
  // there are several.
  const leftovers* sole_living(time_point now) const;

  // For the record: how the newest closed instances ended, and the same without the newest one.
  const shared_list<past_end>& past() const { return past_; }
  const shared_list<past_end>& past_before_newest() const { return past_before_newest_; }
  // To be called when the end of a closed instance has changed.
  void renew_past();

 private:
  std::list<closed_instance> closed_;
  shared_list<past_end> past_;
  shared_list<past_end> past_before_newest_;
};

// The current instance of a run, or its last one. It is replaced as a whole when the next one is
// opened.

// The nodes of the newest round, for the record: how many they are, which, and how long after this
// daemon's death none of their workers lives (run_record::gone_after).
struct placed_nodes {
  std::uint32_t count = 0;
  duration gone_after{};
  shared_list<std::string> names;
};

// How many of the newest reports can be asked for.
inline constexpr std::size_t reports_max = 16;

struct current_instance {
  instance_id id = 0;  // 0: none has been decided on
  time_point opened_at{};
  std::optional<started_job> job;        // that opened it
  std::optional<run_settings> settings;  // from the first round on
  restart_budget budget;
  quick_failures quick;
  bool has_run_long = false;  // a round of it did not end quickly, or was an earlier daemon's
  node_failures failing;
  bool is_found = false;    // the newest round is an earlier daemon's, and does not go on
  bool has_placed = false;  // a node got its assignment, from this daemon or an earlier one
  placed_nodes placed;
  assignment common;                // what all assignments of the newest round share
  leftovers left_behind;            // of the round that was left last
  std::optional<cause> last_cause;  // of the newest round that was charged
  std::string last_end;             // how the newest round ended, in words
  departures gone;                  // since the newest round that ran
  std::string refusal;              // the newest refusal because of settings, since that round
  std::string taken_back;           // who was left out and is needed again, since that round
  std::string news;                 // about the newest round, for its members
  std::string warning;
  struct {
    std::string position_name;
    std::string text;
  } unable;                           // the newest node that cannot start, and why
  duration lasted{};                  // how long the newest round had run when its stop began
  std::optional<duration> quick_end;  // how soon after its start it ended, if that was quick
  std::deque<round_report> reports;   // of rounds that are over, the newest last
  // What follows the newest report. It is told once it is known whether any node goes on.
  std::string untold_next;
  std::optional<cause> operator_stop;  // once set, no round follows
  std::optional<due_end> due;          // the same, according to an earlier daemon's record

  bool is_decided() const { return id != 0; }
};

// Workers of older instances that may still live, as far as this daemon knows: on nodes that are
// here and were told to end them, and on nodes that have gone without saying that they did.
class stale_workers {
 public:
  using orders = std::map<std::uint64_t, machine_time>;  // by join order: when the node was told

  // Nodes that are ending their workers. True: that has changed.
  bool add_ending(std::uint64_t order, machine_time now);
  bool drop_ending(std::uint64_t order);
  const orders& ending() const { return ending_; }

  // No worker of the nodes that have gone lives after this moment. It is in real time, because
  // those workers end whether or not this daemon's loop runs.
  void raise_lost_until(time_point until);
  time_point lost_until() const { return lost_until_; }
  // Forgets the nodes that have gone: the stop of a found round counts them, or they are another
  // job's.
  void drop_lost() { lost_until_ = {}; }

 private:
  orders ending_;
  time_point lost_until_{};
};

// Whose job the instance is.

// The node's command line cannot work there, and the node was never part of a round.
bool cannot_start(const status& said);

// The exit code of a node that this status says was asked to leave, if no node goes on.
int code_of_drain(const status& said);

const std::optional<started_job>& job_here(const run_options& options, const entered_phase& phase,
                                           const current_instance& current);
std::string place_taken_text(const run_options& options, const entered_phase& phase,
                             const current_instance& current, instance_id instance,
                             const std::optional<started_job>& job);
bool may_be_same_job(const run_options& options, const std::optional<started_job>& one,
                     const std::optional<started_job>& other);

// What may still live of the instances before this one, and how they ended.

// Whether the node was told of a round of its instance, and so knows more than a newcomer.
bool knows_of_round(const status& said);

bool completes_success(const entered_phase& phase, current_instance& current,
                       const round_numbers& rounds, const node& who);
time_point stale_until(const stale_workers& stale, const closed_instances& closed,
                       const persisted_run& persisted, const machine_clock& clock);
bool stale_may_live(const current_instance& current, const stale_workers& stale,
                    const closed_instances& closed, const persisted_run& persisted,
                    const machine_clock& clock);
timer_moment stale_deadline(const current_instance& current, const stale_workers& stale,
                            const closed_instances& closed, const persisted_run& persisted,
                            const roster& nodes, const machine_clock& clock);
const leftovers* sole_stale(const stale_workers& stale, const closed_instances& closed,
                            const machine_clock& clock);
std::string stale_reason(const current_instance& current, const stale_workers& stale,
                         const closed_instances& closed, const persisted_run& persisted,
                         const roster& nodes, const machine_clock& clock);
void watch_ending(stale_workers& stale, wait_message& waiting, machine_time now, node& who);
void remember_lost(const entered_phase& phase, const current_instance& current,
                   stale_workers& stale, const closed_instances& closed, const machine_clock& clock,
                   const node& who, bool proof);
void remember_leftovers(current_instance& current, const round_numbers& rounds,
                        const round_memberships& memberships, const round_stop& stop,
                        const timers& timing, const machine_clock& clock);
void leave_other_job(stale_workers& stale, closed_instances& closed, round_numbers& rounds,
                     outbox& out, const std::optional<started_job>& before);
bool is_record_of_another(const run_options& options, const persisted_run& persisted,
                          const roster& nodes);
void learn_of_success(const run_options& options, const entered_phase& phase,
                      current_instance& current, closed_instances& closed, outbox& out,
                      closed_instance& record, const status& said);
void release(const headcount& counts, const current_instance& current, const round_numbers& rounds,
             outbox& out, node& who, int exit_code);

}  // namespace ddprun::core
