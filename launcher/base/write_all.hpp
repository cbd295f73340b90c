// Writes a whole text to a file: write(2) may write a part, or be interrupted.
//
// Thread rule: any thread; blocks as the file does.
#pragma once

#include <string_view>

namespace ddprun::launcher {

// Returns 0 or errno, which also stays set.
int write_all(int file, std::string_view text);

}  // namespace ddprun::launcher
