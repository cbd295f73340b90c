// Finds the file that a command name stands for, as a shell would.
//
// Thread rule: may be called from any thread. It asks the file system.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

// A name with a '/' is returned as it is, found or not: exec then says what is wrong with it.
// Others are looked up in PATH of `environment` (entries NAME=value; the system's default path
// without one). None when no folder of it has an executable file of that name.
std::optional<std::string> find_program(const std::string& name,
                                        const std::vector<std::string>& environment);

}  // namespace ddprun::launcher
