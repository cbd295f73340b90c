// The history is the list of snapshots in a folder: it determines the newest one to resume from,
// and which are old enough to be removed. Only rank 0 has one, which has claimed the folder.
//
// A snapshot that cannot be read is not treated as absent. A damaged one is skipped, with a
// message. A disk that fails for a moment, a manifest of a newer format, or a folder in which every
// snapshot is damaged is an error, and training must not start: starting over would throw the
// history away.
//
// It removes only what this program has written, whose manifest it has read, or what earlier jobs
// have left unfinished: a manifest that cannot be read stays forever, with its files.
//
// A snapshot is removed in two parts, because one rank would need long to remove the files of
// thousands. First rank 0 removes the manifest, which ends the snapshot, and syncs the folder, so
// that no power cut brings the manifest back without its files. Then each rank removes its own
// file, and rank 0 those that belong to no rank of this job. The last rank removes the folder. What
// a rank has left behind is removed at the next save, or by the next job.
//
// Thread rule: one thread. Errors: the kernel's or an errc; `on_message` gets the reason.
#pragma once

#include "worker/snapshot/claim.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/listing.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/rank_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::worker {

// A snapshot is distrusted after so many failures of one run shortly after it has resumed from it.
// Only failures within `trusted_after_steps` that cost a restart count. They are counted only if
// the program reports its progress; otherwise ordinary failures between two saves would look the
// same.
constexpr std::size_t distrusted_after = 2;

struct history_options {
  std::size_t keep = 3;
  bool distrust = true;
  std::uint64_t trusted_after_steps = 10;  // for messages; the caller calls trust()
  std::uint32_t world_size = 1;            // ranks that remove their files
  bool is_reader = false;                  // only calls newest() and skip(), which write nothing
};

// A rank's part in removing a snapshot that is none any more.
void remove_own_file(file_system& files, const std::string& folder, snapshot_order order,
                     std::uint32_t rank);

class snapshot_history {
 public:
  snapshot_history(file_system& files, std::string folder, const claimant& who,
                   std::uint64_t generation, const history_options& options,
                   message_handler on_message)
      : files_(&files),
        folder_(std::move(folder)),
        who_(who),
        generation_(generation),
        options_(options),
        on_message_(std::move(on_message)) {}

  // Also considers these snapshots, which all ranks have in their vaults (vault_tier.hpp); this
  // rank's are in that folder. If a snapshot is in both places, that of the vault is taken. What is
  // damaged there is skipped, and never an error. Call it after leftovers().
  void consider_vault(std::string folder, std::set<snapshot_order> held);
  bool is_in_vault(snapshot_order order) const { return in_vault_.contains(order); }

  // The newest complete snapshot, or none. A distrusted one is only taken if there is no other. It
  // looks at manifests and file names only: if a rank finds its own file damaged, call skip() and
  // then newest() again.
  result<std::optional<manifest>> newest();
  void skip(snapshot_order order, const std::string& why);

  // Records that this job resumes from it. Until trust(), a failure of the job counts against it.
  error_code mark_resumed(const snapshot_info& info);
  void trust(snapshot_order order);

  // Turns files that are written and synced into a snapshot, by writing the manifest. Refused if a
  // newer round has claimed the folder.
  std::optional<failure> commit(const manifest& content);
  // Settles a snapshot whose commit failed with `may_be_there`. None: it exists. errc::not_found:
  // it does not, and never will. Any other failure: that is still unknown.
  std::optional<failure> settle(snapshot_order order);
  // Ends all snapshots but the newest `keep`, and returns them: all ranks must remove their files.
  // Skipped snapshots do not count; they are ended when they are older than all that stay.
  // Snapshots that this job distrusts stay, because it may be mistaken.
  std::vector<snapshot_order> end_beyond_keep();

  void set_message_handler(message_handler to) { on_message_ = std::move(to); }

  // The snapshots that earlier jobs have left unfinished, which all ranks must remove. Call it
  // once, after the claim. One whose folder cannot be synced stays for the next job.
  std::vector<snapshot_order> leftovers();

  // Rank 0 removes its part, after the other ranks were told.
  void remove_rest(const std::vector<snapshot_order>& going);

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string place_of(snapshot_order order) const;
  result<manifest> candidate(snapshot_order order);
  // Reads and checks the manifest; `why` says what is wrong. not_found: it was never finished.
  result<manifest> look_at(snapshot_order order, std::string& why) const;
  result<name_set> list_anew(const std::string& place,
                             const std::function<bool(const name_set&)>& is_complete) const;
  bool is_unfinished(snapshot_order order) const;
  bool is_still_mapped(snapshot_order order) const;
  std::size_t failures_after(const snapshot_info& info) const;
  std::string text_of_failures(std::size_t count) const;
  void tell_of_distrust(const snapshot_info& distrusted, std::size_t failures,
                        const snapshot_info& taken) const;
  void tell_of_older_rounds(const manifest& taken, const std::vector<snapshot_order>& all) const;
  bool end(snapshot_order order) const;
  void remove_what_was_left(const std::vector<std::string>& names);
  std::optional<failure> check_it_is_ours(const manifest& content) const;
  error_code end_for_good(snapshot_order order) const;
  error_code remove_files(snapshot_order order, bool is_of_all) const;
  void tell_that_it_stays(snapshot_order order, const error_code& error) const;

  file_system* files_;
  std::string folder_;
  claimant who_;
  std::uint64_t generation_;
  history_options options_;
  message_handler on_message_;
  std::string vault_;  // its folder; empty: not considered
  std::set<snapshot_order> in_vault_;
  std::set<snapshot_order> skipped_;
  std::set<snapshot_order> known_;  // written by us, or with a manifest that we have read
  std::set<snapshot_order> bad_;    // of these, the ones that no job may resume from
  std::set<snapshot_order> going_;  // ended, with files to remove at the next save
};

}  // namespace ddprun::worker
