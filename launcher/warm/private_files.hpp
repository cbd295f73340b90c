// Files of a folder that belongs to this user, and that nobody else may write to: what is read from
// there was written by the user's own processes.
//
// Thread rule: any thread. The calls block while the disk does. Errors: a sentence that names the
// path; no file is none.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::launcher::warm {

struct private_file {
  std::optional<std::string> text;
  std::string problem;  // empty, too, where there is no such file
};

// Refuses what is no plain file, a link among them, or is longer.
private_file read_private_file(const std::string& folder, const std::string& name,
                               std::size_t bytes_max);

// Makes the folder where it is missing, unless that would be in another user's (sudo leaves HOME
// as it is). Readers see the file before or after, whoever else writes it. Returns the problem.
std::string write_private_file(const std::string& folder, const std::string& name,
                               std::string_view text);

}  // namespace ddprun::launcher::warm
