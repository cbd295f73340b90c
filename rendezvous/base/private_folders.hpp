// Creates folders that only this user can read: they hold names of jobs, what scripts import, and
// the state of training.
//
// Thread rule: any thread; blocks while the disk does. Errors: the system's; ENOTDIR if a file is
// in the way.
#pragma once

#include "rendezvous/base/error.hpp"

#include <string>

namespace ddprun {

// In whose folders a missing one may be created.
enum class folder_owner {
  anyone,     // wherever the kernel allows it
  this_user,  // EPERM otherwise: sudo keeps HOME, and root must create nothing there
};

// Creates the folder and its parents if they are missing. An existing one is left alone, whichever
// user owns it, even on a read-only disk or at an automount point.
error_code make_private_folders(const std::string& path, folder_owner above = folder_owner::anyone);

}  // namespace ddprun
