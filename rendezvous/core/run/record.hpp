// What of a run outlives its daemon, on both sides: the numbers that are reserved in the record and
// whether it is kept, what an earlier daemon has kept, and which of its members are back.
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
class roster;
class round_memberships;
struct run_options;
class stale_workers;

// The members of a round of an earlier daemon by what they are known again (lasting_name), and
// which of them are back: if all are, they had died together, and the same commands were started
// again.
//
// Always: several may have one name, on either side. One whose name is not known never counts as
// back.
class members_by_name {
 public:
  // Of nobody.
  members_by_name() = default;
  // By group rank; empty, as are those behind the last: not known. None of them is here yet.
  members_by_name(std::uint32_t size, shared_list<std::string> names);

  // A node of that name is a candidate here from now on, or no longer.
  void count(const std::string& name, bool is_here);

  std::uint32_t size() const { return size_; }
  const shared_list<std::string>& names() const { return names_; }
  std::size_t missing() const { return missing_; }
  // If it is known who they are: some names.
  std::vector<std::string> missing_names() const;

 private:
  std::uint32_t size_ = 0;
  shared_list<std::string> names_;
  // How many more members have that name than are here; negative where more are here.
  std::map<std::string, std::int64_t> short_of_;
  std::size_t missing_ = 0;  // also those whose names are not known
};

// The numbers of a run's rounds: the newest that was chosen or heard of, the floor that the next is
// above as well, and up to which they are reserved in the record of the run.
//
// Always: a number is given once in an instance, and only when it is reserved. The floor is of the
// run, the others are of the instance.

inline constexpr round_number rounds_block = 16;  // so many numbers are reserved together

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
  // Half a block is reserved ahead, so that no round waits for that.
  void reserve_ahead();

  // What others say, or a record: more may have been given than is known here.
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

// What an earlier daemon has kept of an instance that was open when it died. It is there for as
// long as it is the most that is known: until somebody is placed here, or the instance is over.
//
// It knows which members of that instance's newest round are back: if all of them are, they have
// died together, and the same commands were started again.
class persisted_run {
 public:
  // Since when its nodes have been without a daemon. None of them is here yet.
  void begin(run_record record, machine_time since);
  void drop() { *this = {}; }

  bool is_there() const { return record_.has_value(); }
  const std::optional<run_record>& record() const { return record_; }
  bool is_of(instance_id which) const { return record_ && record_->instance == which; }

  void count(const std::string& name, bool is_here) { members_.count(name, is_here); }
  const members_by_name& members() const { return members_; }

  // No worker of its newest round lives from then on. None: nothing is known of any, or all its
  // members are here again.
  std::optional<machine_time> living_until() const;
  // The same, wherever its members are.
  machine_time gone_at() const;
  // If no agent has come back by then, the instance is lost.
  machine_time lost_at() const;

 private:
  std::optional<run_record> record_;
  machine_time since_{};
  members_by_name members_;
};

// What this daemon has asked for to be kept of a run, and whether it is: each is asked for once, by
// number, and all up to a number are kept together.
class record_persistence {
 public:
  // What an earlier daemon has kept.
  void begin_with(const run_record& record) { newest_ = record; }
  // The number to ask with; none where that was asked for last.
  std::optional<std::uint64_t> ask(const std::optional<run_record>& record);
  void set_persisted(std::uint64_t revision);
  bool is_kept(const std::optional<run_record>& record) const;

 private:
  std::optional<run_record> newest_;  // that was asked for
  std::uint64_t revision_ = 0;        // its number
  std::uint64_t kept_ = 0;
};

// What is kept, and what is made of what was kept.

void go_on_from(current_instance& current, round_numbers& rounds, const run_record& record);
std::optional<time_point> persisted_living_until(const machine_clock& clock,
                                                 const persisted_run& earlier);
timer_moment lost_instance_at(const current_instance& current, const persisted_run& earlier,
                              const roster& nodes);
run_record record_of(const run_options& options, const current_instance& current,
                     const round_numbers& rounds, const closed_instances& closed);
void foresee_charge(const current_instance& current, const round_numbers& rounds,
                    time_point real_now, const std::optional<cause>& why, run_record& record);
void note_placed(current_instance& current, const round_memberships& memberships,
                 const timers& timing);
void remember_older(const current_instance& current, const stale_workers& older,
                    const closed_instances& closed, const persisted_run& earlier,
                    const timers& timing, const machine_clock& clock, run_record& record);

}  // namespace ddprun::core
