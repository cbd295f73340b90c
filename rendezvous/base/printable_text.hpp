// Makes text of others safe to show: a peer's text appears in logs and on terminals, where a line
// feed or an escape sequence in it could imitate our own output.
//
// Both sides of a connection use it: the sender, so that its texts fit into a line, and the reader,
// because the peer may be anybody.
//
// Control characters are those below U+0020, U+007F, and U+0080 to U+009F; here also those that end
// a line or change its direction (U+2028 to U+202E, U+2066 to U+2069), which would show a text in
// another order than it was written. Text must be valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

bool has_control_characters(std::string_view text);

// Removes escape sequences (ECMA-48) and replaces each other control character by a blank.
std::string in_one_line(std::string text);
// The same for text with several lines: line feeds and tabs stay.
std::string in_lines(std::string text);

}  // namespace ddprun
