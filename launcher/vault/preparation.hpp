// The preparation of a vault for a round. It creates the folder in memory, saves what a dead agent
// has left, sets an entry aside from which rounds keep failing, and restores what is missing in
// memory: the common entry if there are other nodes, from disk or from another node.
//
// As long as the node has what its workers left in memory, no disk is read.
//
// Thread rule: one preparation at a time, on a thread of its own; it may block as long as a disk
// hangs. Once the desk has a newer ticket it gives up, and does not write to the workers' folder
// any more.
#pragma once

#include "launcher/vault/agreement.hpp"
#include "launcher/vault/copy_server.hpp"
#include "launcher/vault/desk.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher::vault {

class preparation {
 public:
  explicit preparation(const std::shared_ptr<desk>& shared) : shared_(shared), desk_(*shared) {}

  // Returns the folder for DDPRUN_VAULT of that group rank's workers; empty: none. `has_failed`:
  // the previous round has failed.
  std::string run(const round_place& here, bool has_failed, std::uint64_t ticket);

 private:
  void make_home();
  void save_what_is_left();
  bool save_home(const memory_home& left);
  void note_origins(const origin& from);
  void note_origin(const owned_version& which, const origin& from);
  void enter(shelf& made);
  void enter_disk(shelf& made);
  unique_fd lock_disk(const std::string& disk);
  // Limits a copy to the time in which this preparation is wanted.
  pace while_wanted();
  void set_aside(const shelf& here, int memory);
  void put_back(const shelf& here, int memory);
  void put_one_back(const shelf& here, int memory, const std::string& name);
  std::vector<entry> complete(std::uint32_t of, int memory);

  // In preparation_common.cpp: what the nodes of a round have in common.
  // False: the nodes have not agreed.
  bool take_common(round_place here, const shelf& own, int memory);
  node_word own_word(const round_place& here);
  void add_held(node_word& word, std::uint32_t of, const std::string& disk);
  void tell_who_has_none(const std::vector<node_word>& words);
  void tell_of_parts(const round_place& here, int memory, const std::vector<node_word>& words);
  std::optional<peer> peer_here() const;
  bool is_safe(const shelf& own, int memory, const entry& one);
  bool make_room(const shelf& own, int memory, const version& wanted, std::uint64_t bytes);
  bool free_name(const shelf& own, int memory, const version& wanted);
  bool fetch(const round_place& here, const shelf& own, int memory, const agreed& found,
             const std::function<bool()>& goes_on, std::string& problem);
  bool bring(const round_place& here, const shelf& own, int memory, const agreed& found,
             const std::function<bool()>& goes_on);
  bool can_do_without(const round_place& here, const agreed& found);
  // Removes the markers of newer entries. Returns those entries, with the files that they have
  // then.
  std::vector<entry> unmark_newer_than(std::uint32_t of, int memory, std::int64_t order);
  void clear_away(const shelf& own, int memory, const std::vector<entry>& hidden);
  // For a node without a vault in memory: its entries on disk count, but its workers start without
  // one.
  void go_without_memory(const round_place& here);
  void take_asides(const shelf& own, const agreed& found);
  void hide(const round_place& here, const shelf& own, int memory, const agreed& found);

  std::shared_ptr<desk> shared_;
  desk& desk_;
  std::unique_ptr<copy_server> server_;  // none: there was no other node yet
  std::uint64_t ticket_ = 0;
  bool is_home_made_ = false;
  std::string home_;                // empty: there is none
  std::unique_ptr<shelf> on_disk_;  // the shelf of a node without memory_home
  bool looks_at_disk_ = false;
  trial trial_;
  bool was_silent_ = false;  // a node wrote no word in the last round
};

}  // namespace ddprun::launcher::vault
