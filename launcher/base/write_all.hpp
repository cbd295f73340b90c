// Writes the whole of a text into a file: write(2) may take a part, or be interrupted.
//
// Thread rule: any thread; blocks as the file does.
#pragma once

#include <string_view>

namespace ddprun::launcher {

// 0, or errno, as which it stays set.
int write_all(int file, std::string_view text);

}  // namespace ddprun::launcher
