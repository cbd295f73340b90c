// Reads the files of a snapshot that its manifest lists.
//
// Thread rule: one thread.
#pragma once

#include "worker/snapshot/file_system.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/rank_file.hpp"
#include "worker/snapshot/rank_messages.hpp"
#include "worker/snapshot/snapshot_state.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace ddprun::worker {

class snapshot_reading {
 public:
  // `path` is the snapshot's own folder.
  snapshot_reading(file_system& files, std::string path) : files_(files), path_(std::move(path)) {}

  // Reads the manifest. Call it first. errc::not_found if there is none, as far as this machine
  // shows; errc::damaged if it belongs to another snapshot.
  std::optional<failure> open(snapshot_order order);
  const manifest& content() const { return content_; }

  // Reads a rank's file. A failure names the file.
  std::variant<rank_file, failure> file(std::uint32_t rank, bool is_checked) const;
  // Checks the length of a file that no rank reads.
  std::optional<failure> check_length(std::uint32_t rank) const;

  // The pieces that ranks have of larger tensors; a file is opened when it is needed, that of
  // `first` before the others. The file system must be there until then.
  std::shared_ptr<sharded_tensors> pieces(std::uint32_t first, bool is_checked) const;

  // The description of the snapshot, without any tensors.
  resumed_snapshot begin() const;

 private:
  file_system& files_;
  std::string path_;
  manifest content_;
};

// Adds the replicated state of another file.
void add_share(snapshot_part& all, snapshot_part share);

}  // namespace ddprun::worker
