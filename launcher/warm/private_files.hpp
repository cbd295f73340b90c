// Files in a folder that belongs to this user and that no other user may write to: so what is read
// was written by the user's own processes.
//
// Thread rule: any thread. The calls block while the disk does. Errors: a sentence that names the
// path; a missing file is no error.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::warm {

struct private_file {
  std::optional<std::string> text;
  std::string problem;  // also empty if there is no such file
};

// Refuses links and other special files, and files longer than `bytes_max`.
private_file read_private_file(const std::string& folder, const std::string& name,
                               std::size_t bytes_max);

// Creates the folder if it is missing, unless it would be in another user's (sudo keeps HOME).
// Readers see the old or the new file, even with several writers. Returns the problem.
std::string write_private_file(const std::string& folder, const std::string& name,
                               std::string_view text);

}  // namespace ddprun::launcher::warm
