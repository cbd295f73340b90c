// What outlives a run's daemon, on both sides: the round numbers that are reserved in the record,
// whether the record is persisted, what an earlier daemon has persisted, and which of its members
// are back.
#pragma once

#include "rendezvous/base/machine_clock.hpp"
#include "rendezvous/base/machine_timers.hpp"
#include "rendezvous/base/shared_list.hpp"
#include "rendezvous/core/messages/cause.hpp"
#include "rendezvous/core/messages/messages.hpp"
#include "rendezvous/core/run/run_record.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::core {

class closed_instances;
struct current_instance;
class entered_phase;
class outbox;
class recovery_claims;
class roster;
class round_memberships;
struct run_options;
class stale_workers;

// The members of an earlier daemon's round by their lasting_name, and which of them are back: if
// all are, they had died together, and the same commands were started again.
//
// Always: several members or nodes may have one name. A member whose name is not known never counts
// as back.
class members_by_name {
 public:
  // No members.
  members_by_name() = default;
  // `names` is by group rank; a name that is empty or missing is not known. No member is back yet.
  members_by_name(std::uint32_t size, shared_list<std::string> names);

  // A node of that name is a candidate from now on, or no longer.
  void count(const std::string& name, bool is_here);

  std::uint32_t size() const { return size_; }
  const shared_list<std::string>& names() const { return names_; }
  std::size_t missing() const { return missing_; }
  // Some of their names, if all are known.
  std::vector<std::string> missing_names() const;

 private:
  std::uint32_t size_ = 0;
  shared_list<std::string> names_;
  // How many more members have that name than are here; negative: more are here.
  std::map<std::string, std::int64_t> short_of_;
  std::size_t missing_ = 0;  // including those whose names are not known
};

// The numbers of a run's rounds: the newest that was chosen or heard of, a floor that the next
// number is also above, and up to which number they are reserved in the run's record.
//
// Always: a number is given once in an instance, and only when it is reserved. The floor belongs to
// the run, the others belong to the instance.

inline constexpr round_number rounds_block = 16;  // numbers reserved at a time

class round_numbers {
 public:
  explicit round_numbers(round_number before_first = 0) : newest_(before_first) {}

  round_number newest() const { return newest_; }
  round_number floor() const { return floor_; }
  round_number highest() const;                        // that may have been given
  round_number reserved() const { return reserved_; }  // inclusive

  void begin_instance(round_number before_first);
  // Chooses a round.
  void take_next();
  // Keeps half a block reserved ahead, so that no round waits for the disk.
  void reserve_ahead();

  // From agents or from a record: more may have been given than is known here.
  void raise_newest(round_number said);
  void raise_floor(round_number said);
  void drop_floor() { floor_ = 0; }
  void set_reserved(round_number recorded) { reserved_ = recorded; }

 private:
  void reserve(round_number least);

  round_number newest_;
  round_number floor_ = 0;
  round_number reserved_ = 0;
};

// What an earlier daemon has persisted of an instance that was open when it died. It is here as
// long as nothing better is known: until a node is placed, or the instance is over.
//
// It also tracks which members of that instance's newest round are back.
class persisted_run {
 public:
  // `since`: when its nodes lost their daemon. None of them is here yet.
  void begin(run_record record, machine_time since);
  void drop() { *this = {}; }

  bool is_there() const { return record_.has_value(); }
  const std::optional<run_record>& record() const { return record_; }
  bool is_of(instance_id which) const { return record_ && record_->instance == which; }

  void count(const std::string& name, bool is_here) { members_.count(name, is_here); }
  const members_by_name& members() const { return members_; }

  // No worker of its newest round lives after this moment. None: no worker is known of, or all
  // members are back.
  std::optional<machine_time> living_until() const;
  // The same, whether or not members are back.
  machine_time gone_at() const;
  // If no agent has come back by then, the instance is lost.
  machine_time lost_at() const;

 private:
  std::optional<run_record> record_;
  machine_time since_{};
  members_by_name members_;
};

// What this daemon has asked to persist of a run, and whether it is persisted. Each record is asked
// for once, with a revision; an answer covers all revisions up to its own.
class record_persistence {
 public:
  // What an earlier daemon has persisted.
  void begin_with(const run_record& record) { newest_ = record; }
  // The revision to ask with; none: this record was asked for last.
  std::optional<std::uint64_t> ask(const std::optional<run_record>& record);
  void set_persisted(std::uint64_t revision);
  bool is_persisted(const std::optional<run_record>& record) const;

 private:
  std::optional<run_record> newest_;  // that was asked for
  std::uint64_t revision_ = 0;        // its number
  std::uint64_t persisted_ = 0;
};

// What is persisted, and how a daemon goes on from it.

void go_on_from(current_instance& current, round_numbers& rounds, const run_record& record);
std::optional<time_point> persisted_living_until(const machine_clock& clock,
                                                 const persisted_run& persisted);
timer_moment lost_instance_at(const current_instance& current, const persisted_run& persisted,
                              const roster& nodes);
run_record record_of(const run_options& options, const current_instance& current,
                     const round_numbers& rounds, const closed_instances& closed);
void foresee_charge(const current_instance& current, const round_numbers& rounds,
                    time_point real_now, const std::optional<cause>& why, run_record& record);
void note_placed(current_instance& current, const round_memberships& memberships,
                 const timers& timing);
void remember_stale(const current_instance& current, const stale_workers& stale,
                    const closed_instances& closed, const persisted_run& persisted,
                    const timers& timing, const machine_clock& clock, run_record& record);
void end_due_record(current_instance& current, closed_instances& closed, persisted_run& persisted,
                    const machine_clock& clock, outbox& out);
void remember(const run_options& options, entered_phase& phase, current_instance& current,
              round_numbers& rounds, recovery_claims& claims, closed_instances& closed,
              persisted_run& persisted, record_persistence& records, const machine_clock& clock,
              const run_record& record);

}  // namespace ddprun::core
