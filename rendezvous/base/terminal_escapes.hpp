// Removes terminal control sequences from a program's output: those that draw over several lines,
// which could be the lines of others, and colours, which a reader of the text does not expect.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

// Removes sequences (ECMA-48) that move the cursor, clear more than a line, or change the terminal.
// Colours, and clearing all or the rest of a line, stay.
std::string without_cursor_moves(std::string_view text);
// Removes every sequence: Python 3.13 colours the tracebacks that it writes to a terminal.
std::string without_escapes(std::string_view text);

}  // namespace ddprun
