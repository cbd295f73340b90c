// The instances of a run that are over, newest first: how each ended, who of it is still to be
// told, and who of it may live on.
//
// Always: at most closed_instances_max of them; each is remembered for closed_memory, in real
// time: what happens elsewhere does not wait for the loop of this daemon.
#pragma once

#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/record.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <cstdint>
#include <list>
#include <optional>
#include <set>
#include <string>

namespace ddprun::core {

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

}  // namespace ddprun::core
