// What a program writes to a terminal beside text: to draw over several lines, which would land in
// those of others, and for colours, which whoever reads the text does not expect.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// The text without the sequences (ECMA-48) that move the cursor, clear more than a line, or change
// the terminal. Those for colours, and for clearing a line or the rest of it, stay.
std::string without_cursor_moves(std::string_view text);
// Without any sequence: Python 3.13 colours the tracebacks that it writes to a terminal.
std::string without_escapes(std::string_view text);

}  // namespace ddprun
