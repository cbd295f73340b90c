// The history is the snapshots in a folder: which is the newest to go on from, and which are old
// enough to go. It is rank 0's, which has claimed the folder.
//
// What cannot be read is not what is not there. A damaged snapshot is skipped, with a message; a
// disk that fails for a moment, a manifest of a newer format, or a folder in which every snapshot
// is damaged is an error, and training must not begin: going on would throw the history away.
//
// Nothing is removed but what this program has written, or whose manifest it has read, or what was
// never finished by those before: a manifest that cannot be read stays for ever, with its files.
//
// A snapshot goes in two parts, for one rank takes its time to remove the files of thousands: first
// its manifest, with which it is none any more; then each rank removes its own file, and rank 0
// those that are no rank's of this job. Whoever is last removes the folder. What a rank has left
// goes with the next save, or with the next job.
#pragma once

#include "worker/snapshot/claim.hpp"
#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/listing.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/rank_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::worker {

// So many failures of one run right after it went on from a snapshot make it distrusted: those that
// cost a restart, within so many steps. They are counted where the program tells its progress, or
// ordinary failures between two saves would look the same.
constexpr std::size_t distrusted_after = 2;

struct history_options {
  std::size_t keep = 3;
  bool distrust = true;
  std::uint64_t trusted_after_steps = 10;  // for messages: the caller calls trust()
  std::uint32_t world_size = 1;            // ranks that remove their files
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

  // The newest whole snapshot; none when there is none. One that is distrusted is taken only where
  // there is no other. It looks at manifests and for the names of files: a rank that finds more
  // wrong with its own says so with skip(), and newest() is asked again.
  result<std::optional<manifest>> newest();
  void skip(snapshot_order order, const std::string& why);

  // This job goes on from it. Until it is trusted again, a failure counts against it.
  error_code mark_resumed(const snapshot_info& info);
  void trust(snapshot_order order);

  // Makes the snapshot, whose files are there and synced, one that is there. Refused when a newer
  // round has the folder.
  std::optional<failure> commit(const manifest& content);
  // One whose commit failed when it may have been there. None: it is there. errc::not_found: it is
  // not, and never will be. Another failure: that is not known yet.
  std::optional<failure> settle(snapshot_order order);
  // What is beyond the newest `keep`, and is no snapshot any more: all ranks are to remove it.
  // Snapshots that were skipped do not count, and go with those that are older than all that stay.
  // What this job distrusts stays: it may be mistaken.
  std::vector<snapshot_order> end_beyond_keep();

  void set_message_handler(message_handler to) { on_message_ = std::move(to); }

  // What those before us have not finished: all ranks are to remove it. To be called once, after
  // the claim.
  std::vector<snapshot_order> leftovers();

  // Rank 0's part, once the others have heard of it.
  void remove_rest(const std::vector<snapshot_order>& going);

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  // What is wrong with it in `why`; not_found: it was never finished.
  result<manifest> look_at(snapshot_order order, std::string& why) const;
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
  std::set<snapshot_order> skipped_;
  std::set<snapshot_order> known_;  // written by us, or with a manifest that we have read
  std::set<snapshot_order> bad_;    // of these, what no job is to go on from
  std::set<snapshot_order> going_;  // ended, and to be seen to with the next save
};

}  // namespace ddprun::worker
