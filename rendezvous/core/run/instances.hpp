// The instances of a run: the one that is on, those that are over, and what may still live of them.
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

struct agent_joined;
class entered_phase;
struct node;
class outbox;
class persisted_run;
class roster;
class round_memberships;
class round_numbers;
class round_stop;
struct run_options;
class wait_message;

// The instances of a run that are over, newest first: how each ended, who of it is still to be
// told, and who of it may live on.
//
// Always: at most closed_instances_max of them; each is remembered for closed_memory, in real
// time: what happens elsewhere does not wait for the loop of this daemon.

inline constexpr std::size_t closed_instances_max = 64;
inline constexpr duration closed_memory = std::chrono::hours(1);

// Of the round that was left last: who has succeeded in it, and members that could not be reached
// when it was given up: their workers may live on.
struct leftovers {
  round_number round = 0;
  std::set<std::uint32_t> succeeded;  // group ranks
  std::set<session_id> sessions;
  std::size_t unknown = 0;  // of whom a restarted daemon knows no session
  members_by_name members;  // of a round that only a record tells of; else of nobody
  time_point until{};       // none of their workers lives any longer
  bool is_held = false;     // nobody has let go yet: they may hold each other until orphan_limit
  duration let_go_limit{};  // from when one does until they must be gone

  // This member says that all was done at its place. True: so say all of its round, if that is the
  // newest one.
  bool complete_success(const status& said);
  // The workers of one of them are gone, and nobody lives on by its tethers.
  void let_go(time_point now);
  // `until`, unless all are here again.
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
  std::optional<started_job> job;  // that had opened it
  std::set<session_id> absent;     // have not been told, or have not said goodbye
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

  // The one that the sender of this hello belongs to, by its own word or by ours: it may have been
  // connected, and lost, before it was told of any instance. None where it is not known, or old.
  closed_instance* of(const hello& greeting, time_point now);
  void said_goodbye(const session_id& session);  // it is told

  // What becomes of this session of the instance is known from elsewhere; `has_let_go`: its workers
  // are gone, and nobody lives on by its tethers.
  void take_out(const session_id& session, instance_id instance, bool has_let_go, time_point now);
  // Some member of that instance, which is closed, has let go of the others.
  bool has_let_go(instance_id instance) const;
  // The run no longer waits for those that were left behind.
  void forget_living();
  // A node of that name (lasting_name) is a candidate here from now on, or no longer.
  void count(const std::string& name, bool is_here);
  // From then on none of all that were left behind lives.
  time_point living_until() const;
  // Those that may live of the one instance of which any may. Null: there is none, or several.
  const leftovers* sole_living(time_point now) const;

  // For the record: how the newest of them ended, and the newest of those before the newest one.
  const shared_list<past_end>& past() const { return past_; }
  const shared_list<past_end>& past_before_newest() const { return past_before_newest_; }
  // What one of them ended with is another than it was.
  void renew_past();

 private:
  std::list<closed_instance> closed_;
  shared_list<past_end> past_;
  shared_list<past_end> past_before_newest_;
};

// The instance of a run that is on here, or was last: what is forgotten as a whole when the next
// one is opened.

// Of the newest round, for the record: how many nodes it had and which, and how long after this
// daemon none of its workers lives (run_record::gone_after).
struct placed_nodes {
  std::uint32_t count = 0;
  duration gone_after{};
  shared_list<std::string> names;
};

// How many of the newest reports are kept for those who ask.
inline constexpr std::size_t reports_max = 16;

struct current_instance {
  instance_id id = 0;  // none has been decided on: 0
  time_point opened_at{};
  std::optional<started_job> job;        // that opened it
  std::optional<run_settings> settings;  // from the first round on
  restart_budget budget;
  quick_failures quick;
  bool has_run_long = false;  // a round of it, or an earlier daemon's
  node_failures failing;
  bool is_found = false;    // the newest round is an earlier daemon's, and was not kept
  bool has_placed = false;  // somebody, in a round of this instance, or an earlier daemon has
  placed_nodes placed;
  assignment common;                // what all places of the newest round share
  leftovers left_behind;            // of the round that was left last
  std::optional<cause> last_cause;  // of the newest round that was charged
  std::string last_end;             // how the newest round ended, in words
  departures gone;                  // since the newest round that was running
  std::string refusal;              // the newest for its settings, since that round
  std::string taken_back;           // who was left out and is needed again, since that round
  std::string news;                 // of the newest round, for those who are in it
  std::string warning;
  struct {
    std::string place_name;
    std::string text;
  } unable;                           // the newest node that cannot start, and why
  duration lasted{};                  // the newest round, when its stop began
  std::optional<duration> quick_end;  // its end came so soon after its start
  std::deque<round_report> reports;   // of rounds that are over, the newest last
  // What is next after the newest, to be told once it is known whether anybody goes on.
  std::string untold_next;
  std::optional<cause> operator_stop;  // from then on no round follows
  std::optional<due_end> due;          // the same, by the record of an earlier daemon

  bool is_decided() const { return id != 0; }
};

// Workers that may live of instances before the one here, as far as this daemon has heard: of nodes
// that are here and were told to end them, and of nodes that have gone without a word.
class stale_workers {
 public:
  using orders = std::map<std::uint64_t, machine_time>;  // by join order: told when

  // Nodes that end their workers. True: that is news.
  bool add_ending(std::uint64_t order, machine_time now);
  bool drop_ending(std::uint64_t order);
  const orders& ending() const { return ending_; }

  // Of nodes that have gone: none of their workers lives from then on. It is real
  // time: they need no loop of this daemon to end.
  void raise_lost_until(time_point until);
  time_point lost_until() const { return lost_until_; }
  // They are of the round that was found, whose stop counts them.
  void drop_lost() { lost_until_ = {}; }

 private:
  orders ending_;
  time_point lost_until_{};
};

// Whose the instance is.

// Its command line cannot work there, and it was never part of a round.
bool cannot_start(const status& said);

// What a node that was asked to leave, by this status, exits with when nobody goes on.
int code_of_drain(const status& said);

const std::optional<started_job>& job_here(const run_options& options, const entered_phase& phase,
                                           const current_instance& current);
std::string place_taken_text(const run_options& options, const entered_phase& phase,
                             const current_instance& current, instance_id instance,
                             const std::optional<started_job>& job);
bool may_be_same_job(const run_options& options, const std::optional<started_job>& one,
                     const std::optional<started_job>& other);

// What may still live of the instances before this one, and how they ended.

// A round of its instance is on, or was: of that it can say more than a newcomer.
bool knows_of_round(const status& said);

bool completes_success(const entered_phase& phase, current_instance& current,
                       const round_numbers& rounds, const node& who);
time_point older_until(const stale_workers& older, const closed_instances& closed,
                       const persisted_run& earlier, const machine_clock& clock);
bool older_may_live(const current_instance& current, const stale_workers& older,
                    const closed_instances& closed, const persisted_run& earlier,
                    const machine_clock& clock);
timer_moment older_deadline(const current_instance& current, const stale_workers& older,
                            const closed_instances& closed, const persisted_run& earlier,
                            const roster& nodes, const machine_clock& clock);
const leftovers* sole_older(const stale_workers& older, const closed_instances& closed,
                            const machine_clock& clock);
std::string older_reason(const current_instance& current, const stale_workers& older,
                         const closed_instances& closed, const persisted_run& earlier,
                         const roster& nodes, const machine_clock& clock);
void watch_ending(stale_workers& older, wait_message& notice, machine_time now, node& who);
void remember_lost(const entered_phase& phase, const current_instance& current,
                   stale_workers& older, const closed_instances& closed, const machine_clock& clock,
                   const node& who, bool proof);
void remember_leftovers(current_instance& current, const round_numbers& rounds,
                        const round_memberships& memberships, const round_stop& stop,
                        const timers& timing, const machine_clock& clock);
void leave_other_job(stale_workers& older, closed_instances& closed, round_numbers& rounds,
                     outbox& out, const std::optional<started_job>& before);
void hear_of_unable(current_instance& current, wait_message& notice, outbox& out,
                    const agent_joined& event);
bool is_record_of_another(const run_options& options, const persisted_run& earlier,
                          const roster& nodes);
void learn_of_success(const run_options& options, const entered_phase& phase,
                      current_instance& current, closed_instances& closed, outbox& out,
                      closed_instance& record, const status& said);

}  // namespace ddprun::core
