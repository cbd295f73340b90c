// The preparation of a vault for a round: its folder in memory is made, what a dead agent has left
// is saved, what workers went on from in vain is set aside, and what is missing in memory is put
// back from disk.
//
// Where the node has what its workers left there, no disk is asked for anything.
//
// Thread rule: one preparation at a time, on a thread of its own; it may block for as long as a
// disk hangs. Once the desk has another ticket it gives up, and writes to no folder of workers.
#pragma once

#include "launcher/vault/desk.hpp"

#include <cstdint>
#include <string>

namespace ddprun::launcher::vault {

class preparation {
 public:
  explicit preparation(desk& shared) : desk_(shared) {}

  // What workers of that group rank are given as DDPRUN_VAULT; empty: nothing. `has_failed`: the
  // round before this one.
  std::string run(std::uint32_t group_rank, bool has_failed, std::uint64_t ticket);

 private:
  void make_home();
  void save_what_is_left();
  bool save_home(const memory_home& left);
  void enter(shelf& made);
  unique_fd lock_disk(const std::string& disk);
  void set_aside(const shelf& here, int memory);
  void put_back(const shelf& here, int memory);
  void put_one_back(const shelf& here, int memory, const std::string& name);
  std::vector<entry> complete(int memory);

  desk& desk_;
  std::uint64_t ticket_ = 0;
  bool is_home_made_ = false;
  std::string home_;  // empty: there is none
  bool looks_at_disk_ = false;
  trial trial_;
};

}  // namespace ddprun::launcher::vault
