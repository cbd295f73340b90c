// Whether a folder that all nodes are to share is one and the same to all, and how long each goes
// on seeing what was there before.
//
// Each node looks for the others' files, which are not there yet, so that whatever caches says so
// to itself; then writes its own, looks until it sees theirs; writes another text of the same
// length, and looks again. Nothing is left behind.
//
// Thread rule: one thread; blocks, within limits: a file system that does not answer is a problem
// like others.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "launcher/hosts/doctor/meeting.hpp"

#include <filesystem>

namespace ddprun::launcher::doctor {

inline constexpr std::chrono::seconds folder_patience{10};

folder_seen examine_folder(const std::filesystem::path& folder, meeting& others);

}  // namespace ddprun::launcher::doctor
