// Finds the file of a command name as a shell would.
//
// Thread rule: any thread. It accesses the file system.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

// A name with a '/' is returned unchanged, and exec then reports what is wrong with it. Other names
// are looked up in PATH of `environment` (entries NAME=value), or in the system's default path if
// there is none. None: no folder has an executable file of that name.
std::optional<std::string> find_program(const std::string& name,
                                        const std::vector<std::string>& environment);

}  // namespace ddprun::launcher
