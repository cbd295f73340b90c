// Checks whether all nodes share the same folder, and how long each one sees cached contents.
//
// Each node looks for the others' files before they exist, so that caches remember their absence;
// writes its own file and waits for theirs; writes another text of the same length, and looks
// again. Nothing is left behind.
//
// Thread rule: one thread; blocks, within limits: a file system that does not answer is a problem
// like any other.
#pragma once

#include "launcher/hosts/doctor/cluster_facts.hpp"
#include "launcher/hosts/doctor/doctor_meeting.hpp"

#include <filesystem>

namespace ddprun::launcher::doctor {

inline constexpr std::chrono::seconds folder_patience{10};

folder_seen examine_folder(const std::filesystem::path& folder, meeting& others);

}  // namespace ddprun::launcher::doctor
