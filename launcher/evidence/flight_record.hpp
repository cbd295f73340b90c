// What PyTorch's flight recorder knows of the collectives of one rank.
//
// The format is PyTorch's, version 2.10 (torch/csrc/distributed/c10d/FlightRecorder.hpp, 2.11 to
// 2.15): `entries` of the last 2,000 calls, and `pg_status` with the number of the last one of each
// process group. Process groups have numbers of each process's own (`pg_id`), and names that all
// ranks of a group share. Only the entries say which name a number belongs to. With Gloo a call
// that has ended is `retired`, whatever its `state`.
//
// If a script destroys all groups and makes new ones, the new ones have the old names, and their
// calls are counted from 1. Only the newest group of a name is told of; `earlier` says how many
// others the record shows, because numbers of calls mean the same only within one of them. A group
// that a survivor has connected to other ranks counts from 1, too, and is no other group: its calls
// before that are left out.
//
// The text is a worker's, which may write anything: what is none of this is left out, names are
// short and fit into a line, and there are at most recent_max calls and groups_max groups of each
// recorder. It is read in one pass, and no more of it is kept than that.
//
// Thread rule: pure functions and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher::evidence {

inline constexpr std::size_t recent_max = 64;
inline constexpr std::size_t groups_max = 256;

struct collective {
  std::string group;           // name of its process group
  std::string name;            // "all_reduce"
  std::uint64_t sequence = 0;  // in its group, from 1 on
  bool is_pending = false;     // it has not ended
  bool is_point_to_point = false;
  std::string tensors;         // "float32[1024]"; empty: none
  std::uint64_t elements = 0;  // in them
  std::string type;            // of the first; empty: none
  std::int64_t called_ns = 0;  // since 1970; 0: not told
  bool operator==(const collective&) const = default;
};

struct group_progress {
  std::string label;            // what the script calls it, "mesh_dp"; empty: it has no name
  std::uint64_t enqueued = 0;   // number of the last collective that was called; 0: none was
  std::uint64_t completed = 0;  // of the last one that has ended
  bool is_default = false;      // the group of all ranks, as init_process_group() makes it
  std::uint64_t own = 0;        // its number in this process; a group made anew has another
  std::uint64_t earlier = 0;    // groups of the same name before it, as far as the record goes
  bool operator==(const group_progress&) const = default;
};

struct flight_record {
  std::map<std::string, group_progress> groups;  // by name
  std::vector<collective> recent;                // oldest first
};

// None: it is no such text.
std::optional<flight_record> flight_record_of(std::string_view text);

// Adds what another recorder of the same process knows. `prefix`: comes before the names of its
// groups. Calls stay in the order in which they were made.
void add_record(flight_record& to, flight_record other, const std::string& prefix);

// It has not ended, and all ranks of its group take part in it.
bool is_waited_in(const collective& one);
// The oldest such; none: there is none.
const collective* pending_collective(const flight_record& record);

// "all_reduce #5", "all_reduce #5 of group mesh_dp"; "#5" of a group without a name.
std::string number_of(const flight_record& record, const collective& one);

// For people, a line each: process groups, what has not ended, and the last that have. `now_ns`:
// since 1970.
std::string text_of(const flight_record& record, std::int64_t now_ns);

}  // namespace ddprun::launcher::evidence
