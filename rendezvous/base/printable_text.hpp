// Makes the words of others fit to be shown: what a peer says lands in logs and on terminals, and a
// line feed or an escape sequence in it would pass for words of ours.
//
// Both sides of a connection call it: who sends, so that a line has room for its texts, and who
// reads, as nobody has to be a ddprun that connects.
//
// Control characters are those below U+0020, U+007F, and U+0080 to U+009F; here also those that end
// a line or turn its direction (U+2028 to U+202E, U+2066 to U+2069): with them a text would be
// shown in another order than it was written. Text is valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

bool has_control_characters(std::string_view text);

// The text without escape sequences (ECMA-48), each other control character a blank.
std::string in_one_line(std::string text);
// The same of text that has lines: line feeds and tabs stay.
std::string in_lines(std::string text);

}  // namespace ddprun
