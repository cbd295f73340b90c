// Finds a manifest that stands over missing files, which no crash may leave: the writer that finds
// it takes the snapshot for a damaged one, and never removes it.
#pragma once

#include "tests/worker/snapshot/fault_file_system.hpp"
#include "worker/snapshot/manifest.hpp"
#include "worker/snapshot/names.hpp"

#include <cstdint>
#include <string>

namespace ddprun::tests {

// Returns what is wrong on this disk now, or was about to be if the power had been cut; otherwise
// an empty text.
inline std::string lone_manifest(fault_file_system& disk, const std::string& folder) {
  if (!disk.removed_too_early().empty()) {
    return disk.removed_too_early().front() +
           " was removed before the removal of its manifest was synced";
  }
  const auto names = disk.list(folder);
  if (!names) return "";  // the power was cut before the folder was synced
  for (const auto& name : *names) {
    if (!worker::parse_snapshot_name(name)) continue;
    const std::string place = folder + "/" + name + "/";
    const auto text = disk.read(place + std::string(worker::manifest_name), ~std::size_t{0});
    if (!text) continue;
    const auto content = worker::parse_manifest(*text);
    if (!content) return name + " has a manifest that cannot be parsed";
    for (std::uint32_t rank = 0; rank < content->files.size(); ++rank) {
      const std::string file = worker::file_name_in(content->info, rank);
      if (!disk.exists(place + file)) return name + " has a manifest, but no " + file;
    }
  }
  return "";
}

}  // namespace ddprun::tests
