// Makes folders that nobody but this user may look into: names of jobs, what scripts import and the
// state of a training are in them.
//
// Thread rule: any thread; blocks while the disk does. Errors: of the kernel; ENOTDIR where a file
// is in the way.
#pragma once

#include "rendezvous/base/error.hpp"

#include <string>

namespace ddprun {

// In whose folder a missing one may be made.
enum class folder_owner {
  anyone,     // wherever the kernel allows it
  this_user,  // sudo leaves HOME as it is: nothing of root's is made there (EPERM)
};

// The folder and those above it, where they are missing. One that is there stays as it is, whoever
// owns it, on a read-only disk or at an automounter, too.
error_code make_private_folders(const std::string& path, folder_owner above = folder_owner::anyone);

}  // namespace ddprun
