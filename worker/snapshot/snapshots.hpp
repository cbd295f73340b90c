// Snapshots are the state of a training job at some of its steps, kept so that each is whole or not
// there: whatever crashes, and whenever, a snapshot that was reported saved is found again.
//
//   std::string problem;
//   auto kept = snapshots::open(read_environment(), {.folder = "snapshots"}, problem);
//   if (!kept) ...                                            // problem: one line for a person
//   if (const auto& from = (*kept)->resumed()) ...            // from->replicated.tensors
//   for (...) {
//     ... one step ...
//     (*kept)->progress(step);
//     if (step % 1000 == 0) (*kept)->save(step, epoch, state);
//   }
//   (*kept)->close();
//
// The folder must be one that all nodes share. Each rank writes a file of its own there, which
// Python's `safetensors` reads, with a share of what all ranks have alike (shares.hpp); with the
// manifest, which rank 0 writes when all files are on the
// disk, the snapshot is there (names.hpp, manifest.hpp, rank_file.hpp). The newest `keep` stay.
//
// Training waits only for a copy of the state; a thread writes it. One snapshot is under way at a
// time: a save that comes while the one before it is being written waits for that. All ranks learn
// how it went, with the next save, progress, wait or close: a full disk costs the new snapshot,
// never an old one, and whether training goes on is the program's to say. It cannot once is_over():
// the ranks have lost each other, or the job store, or a newer round has the folder.
//
// All ranks go on from the same snapshot: the newest that each of them finds whole. What is damaged
// is skipped with a message, and so is what a round left that was over (claim.hpp). Opening claims
// the folder: a program that only wants to look, beside a job that trains, has reader.hpp.
//
// A snapshot is distrusted, and the one before it taken, with a message, when one run has failed
// twice within `trusted_after_steps` of going on from it. That is known only of a program that
// calls progress() after each step: a snapshot that was saved without it is never distrusted.
//
// With `uses_vault` there is a second place, the vault of each node (vault_tier.hpp): it is memory,
// so a save there is cheap, and what it has counts as what the folder has: the newest of both is
// taken. What cannot be saved there is told, in one line, and is no failure. Where not all ranks
// have a vault, saves there do nothing.
//
// Thread rule: one thread per object; `on_message` may be called on another. open, save, wait and
// close are called by all ranks, in the same order. Ownership: see each.
// Errors: of the kernel, the job store, or an errc (refused: a newer round has the folder, this one
// must end; damaged); `problem()` is one line about the last one. Rank 0 says what went wrong to
// `on_message` at once. No exceptions.
#pragma once

#include "rendezvous/base/error.hpp"
#include "worker/environment.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::worker {

class file_system;    // file_system.hpp
class rank_exchange;  // rank_exchange.hpp
file_system& posix_file_system();

struct snapshots_options {
  std::string folder;    // made when it is not there
  std::size_t keep = 3;  // newest snapshots to keep, at least 1
  // False: save() is over when the snapshot is there, and needs no memory for a copy.
  bool is_asynchronous = true;
  // How many ranks write what all have alike, a share each, in files of which an index tells; on
  // all ranks the same. 0: all that have 64 MiB to write, but four where all are on one node. 1:
  // rank 0 writes what it has, and what other ranks have is not looked at.
  std::uint32_t writers = 0;
  // How the ranks reach each other with many bytes. With it what all have alike is read from the
  // file system once, by the ranks together, each some of the files, and handed on when a tensor is
  // fetched: the tensors that are resumed have no bytes then, but a copy function, which all ranks
  // call in the same order. What one rank cannot read another one reads for it. None: each node
  // reads all, its ranks together, out of one page cache.
  byte_broadcast broadcast;
  // How far ranks may be apart: for all to read, or write, their part.
  std::chrono::milliseconds rank_timeout = std::chrono::minutes(30);
  // So many steps after it was resumed, a failure says nothing against a snapshot.
  std::uint64_t trusted_after_steps = 10;
  // False: the newest one that is whole is taken, however often a job has failed right after it.
  bool distrust = true;
  bool uses_vault = false;           // alike on all ranks
  std::size_t vault_keep = 2;        // newest snapshots to keep there, at least 1
  std::optional<std::string> vault;  // this node's; none: DDPRUN_VAULT, for which getenv is called
  std::string name = "snapshots";    // of its keys in the job store, where a job has two of these
  message_handler on_message = write_to_stderr;
  file_system* files = &posix_file_system();
};

enum class snapshot_place { folder, vault };

class snapshots {
 public:
  // Claims the folder, and maps what to go on from. None: `problem` says why.
  static result<std::unique_ptr<snapshots>> open(const environment& here, snapshots_options options,
                                                 std::string& problem);
  // The same, with the ranks' way to each other at hand.
  static result<std::unique_ptr<snapshots>> open(const environment& here, snapshots_options options,
                                                 rank_exchange ranks, std::string& problem);
  // Gives up what is under way, and waits for no other rank: see close().
  ~snapshots();

  // What all ranks go on from; none: from the beginning. Its tensors' bytes lie in mapped files,
  // until drop_resumed(): before `keep` more snapshots are there, which remove them.
  const std::optional<resumed_snapshot>& resumed() const { return resumed_; }
  void drop_resumed();

  // A step that is saved already is left as it is. One below it is errc::invalid_argument: a job
  // that has gone back to an earlier step opens the snapshots anew, and is the newer one then.
  // The state is another's; on return it is copied, or, without asynchronous saving, written.
  error_code save(std::uint64_t step, std::uint64_t epoch, const snapshot_state& state,
                  snapshot_place to = snapshot_place::folder);
  // The same, but that tensors which may be late (training_state: parameters, and what the
  // optimizer keeps of them) are copied while the program goes on. It calls wait_until_copied()
  // before it changes, or lets go of, any of them: before each step of an optimizer. That is its
  // word that the copy is whole, and so are wait(), is_saved(), close() and the next save: until
  // then there is no snapshot. What goes wrong with a copy is told as what goes wrong with the
  // disk.
  error_code begin_save(std::uint64_t step, std::uint64_t epoch, const snapshot_state& state,
                        snapshot_place to = snapshot_place::folder);
  // Waits for no other rank and no disk. At once where nothing is late.
  void wait_until_copied();
  // The same for a program that can look whether it has kept to that: `changed` is called once
  // after each begin_save(), and says what has changed since. Empty: nothing; else, and where it
  // throws, which goes through, there will be no such snapshot, errc::invalid_argument on all
  // ranks.
  void wait_until_copied(const std::function<std::string()>& changed);
  // Called by each rank that is left when others have died, with the state after the last step that
  // it has finished: they agree on the greatest step, and of these on the greatest epoch, and one
  // of them writes it, with what all ranks have alike and nothing of what is a rank's own
  // (resumed()->own is none then). The launcher ends the ranks that are left after a while: it is
  // over within `grace`. What is under way is given up, and no later save can succeed.
  // The survivors must have the same tensors and values, lest one of them has gone astray, except
  // tensors that are rank 0's (tensor_view::is_rank_0s) and names that `is_compared` excludes.
  // errc::damaged: they differ, or no rank is left with a step that counts (abort_teller), and
  // nothing is saved. errc::timed_out: also where what is under way
  // does not end, for the disk is stuck.
  using name_choice = std::function<bool(std::string_view name)>;
  error_code save_emergency(std::uint64_t step, std::uint64_t epoch, const snapshot_state& state,
                            std::chrono::milliseconds grace, const name_choice& is_compared = {});
  // Returns a function for a rank that is about to abort its collectives on a GPU, which may end
  // those of other ranks with wrong values: it tells them that save_emergency() must not take that
  // step, which is counted as there, nor a later one (emergency.hpp). Any thread may call it, also
  // when this object is gone; it takes three seconds at most. It returns why that could not be
  // said; empty: all will hear it.
  std::function<std::string(std::uint64_t step)> abort_teller() const;
  // Until the one under way is over. It waits for the files of all ranks: where one may die
  // meanwhile, ask is_saved() again and again, and the other ranks in between.
  error_code wait();
  // Whether the one under way is over, or is within that time.
  bool is_saved(std::chrono::milliseconds within) const;
  // This step is done: to be called after each, by all ranks. Costs nothing to speak of.
  error_code progress(std::uint64_t step);
  // The job has come to its end, in order: waits, and trusts what was resumed.
  error_code close();

  // No later save can succeed: end the program, so that the launcher starts the next round.
  bool is_over() const { return is_over_; }

  std::uint64_t generation() const;
  // Of the last one that is there for all; none yet.
  std::optional<std::string> saved() const;
  // The same in this node's vault.
  std::optional<std::string> saved_in_vault() const;
  // All ranks have a vault, and are to use it.
  bool has_vault() const;
  const std::string& problem() const { return problem_; }

 private:
  struct parts;
  explicit snapshots(std::unique_ptr<parts> made);

  error_code take_failure();
  error_code start(std::uint64_t step, std::uint64_t epoch, const snapshot_state& state,
                   bool is_late, snapshot_place to);

  std::unique_ptr<parts> parts_;
  std::optional<resumed_snapshot> resumed_;
  std::string problem_;
  bool is_over_ = false;
};

}  // namespace ddprun::worker
