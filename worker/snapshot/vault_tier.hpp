// The vault as a second place for snapshots: a folder in memory that outlives the workers
// (DDPRUN_VAULT; launcher/vault/README.md). Saving there takes no disk, so it can be done often,
// and a job that lost a worker goes on from there if that is newer than what the folder has.
//
// Each node has a vault of its own, so each node's snapshot there is whole by itself: its ranks
// write all of what is replicated, a share each, and their own state.
//
//   DDPRUN_VAULT/snapshots-0123456789abcdef/     of the folder with this checksum of its name
//     .resumed-from                              tells the launcher what was resumed from
//     snapshot-000003-000040/                    names and order are those of the folder
//     (names.hpp)
//       rank-00000.safetensors ...               one for each rank of the node, from 0
//       ranks.json                               which ranks of how many these are
//       manifest.json                            written last, once all ranks have written
//
// It is there once all nodes have it, and resumed from only if all still have it. What cannot be
// saved there costs nothing but itself: the vault is full, or gone. Not used unless all ranks have
// a vault.
//
// Thread rule: one thread at a time; any thread may ask is_used() and path() after meet(). Errors:
// failures, which are final only if the ranks have lost each other.
#pragma once

#include "worker/environment.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/rank_exchange.hpp"
#include "worker/snapshot/rank_file.hpp"
#include "worker/snapshot/rank_messages.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::worker {

// This node's vault, as the launcher names it; empty: there is none. Calls getenv.
std::string vault_of_node();

struct vault_options {
  file_system* files = nullptr;
  std::string vault;     // this node's; empty: it has none
  std::string folder;    // whose second place it is
  std::size_t keep = 2;  // newest snapshots to keep, at least 1
  // The ranks have a broadcast, with which they hand out what rank 0 has saved.
  bool has_broadcast = false;
};

// A snapshot that all ranks have, each in the vault of its node.
struct held_snapshot {
  bool has_own = true;  // each rank can have its own state, too
  // The lowest rank whose node has what rank 0 had saved; none: it is lost.
  std::optional<std::uint32_t> has_rank_0s;
};

// A snapshot that all ranks have, and cannot take.
struct left_out_snapshot {
  snapshot_order order;
  std::string why;
};

// Which ranks a node's snapshot is of: those of the node, in order, from `first`.
struct ranks_of_node {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
  std::uint32_t world_size = 1;
  // Tensors that may differ between nodes, or be rank 0's only, of which all ranks get rank 0's:
  // names.
  std::vector<std::string> rank_0s;
  // Rank 0 had such tensors, though this node may have none of them.
  bool needs_rank_0s = false;
};

// What a rank writes there, and says of it.
struct vault_write {
  const snapshot_info& info;
  const rank_file_layout& layout;
  const std::vector<std::uint32_t>& replicated;  // the node's ranks that write a share, from 0
  std::uint64_t deal = 0;                        // the same on all ranks of the node
  const std::vector<std::string>& rank_0s;
  bool needs_rank_0s = false;  // rank 0 has some; known once all ranks have written
};

class vault_tier {
 public:
  vault_tier(const environment& here, vault_options options);

  // All ranks say what they have there. Call it once, before the others.
  std::optional<failure> meet(rank_exchange& ranks);
  // Why no rank uses it; empty: all do. The same on all ranks.
  const std::string& why_not() const { return why_not_; }
  bool is_used() const { return is_met_ && why_not_.empty(); }

  // What all ranks can go on from.
  const std::map<snapshot_order, held_snapshot>& held() const { return held_; }
  // Rank 0: the newest of those that all have and cannot take.
  const std::optional<left_out_snapshot>& left_out() const { return left_out_; }
  // The ranks of this node resume from that one; none: from elsewhere, or it has proved itself. The
  // launcher sets a snapshot aside from which two rounds in a row have resumed and failed.
  void note_resumed(const std::optional<snapshot_order>& from);
  // One of them is damaged: it does not count among those to keep.
  void forget(snapshot_order order);
  // The greatest generation of any that a rank has; the folder's next one must be greater.
  std::uint64_t generation_max() const { return generation_max_; }

  const std::string& folder() const { return folder_; }
  std::string path(snapshot_order order) const;

  // What only the ranks of a node know of it: which ranks it is of, or none.
  std::optional<ranks_of_node> ranks_of(snapshot_order order) const;

  // Saves in three steps, after each of which all ranks hear how the others fared. `write` is that
  // of each rank, `complete` makes the files of a node a snapshot, and then it is kept, or taken
  // back on all nodes. Only the node's first rank has to do something in the last two.
  outcome_word write(const vault_write& what, const std::function<bool()>& is_cancelled);
  outcome_word complete(const vault_write& what);
  void keep(snapshot_order order);
  void take_back(snapshot_order order);

 private:
  struct holding {
    bool has_own = false;        // this rank's own state is that of the rank that it is now
    bool needs_own = false;      // there are pieces of larger tensors on other nodes
    bool has_rank_0s = false;    // this node's part is that of rank 0's node
    bool needs_rank_0s = false;  // there are tensors of which all ranks get rank 0's
  };

  bool is_first() const { return here_.local_rank == 0; }
  std::string word_of_this_rank();
  std::optional<holding> look_at(snapshot_order order) const;
  void combine(const std::vector<std::string>& words);
  std::string why_left_out(const held_snapshot& found, const holding& needs) const;
  std::optional<failure> hear(const std::string& word);
  std::string word_of_all() const;
  std::optional<failure> write_manifest(const vault_write& what);
  void remove(snapshot_order order);
  void remove_unfinished();

  environment here_;
  vault_options options_;
  std::string folder_;
  bool is_met_ = false;
  std::string why_not_;
  std::map<snapshot_order, held_snapshot> held_;
  std::optional<left_out_snapshot> left_out_;
  std::uint64_t generation_max_ = 0;
  std::set<snapshot_order> whole_;  // on all nodes, as far as this rank knows
};

// Gives all ranks what a snapshot in the folder would give them: the values that rank 0 has saved,
// and its version of the tensors that may differ between nodes, whatever those of other ranks are
// called or look like. `holder` is the rank that has read them. All ranks call it; it throws what
// the broadcast throws, and std::exception if that has brought something else.
void take_what_rank_0_saved(resumed_snapshot& found, const ranks_of_node& saved,
                            const byte_broadcast& broadcast, std::uint32_t holder,
                            std::uint32_t rank);

}  // namespace ddprun::worker
