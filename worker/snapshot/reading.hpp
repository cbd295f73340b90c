// Reads the files of a snapshot, as its manifest tells of them.
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
  // `path` is that of the snapshot's own folder.
  snapshot_reading(file_system& files, std::string path) : files_(files), path_(std::move(path)) {}

  // The manifest, which is to be asked for first. errc::not_found: there is none, as far as this
  // machine shows; errc::damaged: it is another's.
  std::optional<failure> open(snapshot_order order);
  const manifest& content() const { return content_; }

  // Of a rank. A failure names the file.
  std::variant<rank_file, failure> file(std::uint32_t rank, bool is_checked) const;
  // That it has the length of its record, for nobody reads it.
  std::optional<failure> check_length(std::uint32_t rank) const;

  // Of all ranks, the pieces that each has of larger tensors.
  std::variant<std::shared_ptr<const sharded_tensors>, failure> pieces(bool is_checked) const;

  // What it says of itself, without any tensor.
  resumed_snapshot begin() const;

 private:
  file_system& files_;
  std::string path_;
  manifest content_;
};

// What another file has of what all ranks have alike.
void add_share(snapshot_part& all, snapshot_part share);

}  // namespace ddprun::worker
