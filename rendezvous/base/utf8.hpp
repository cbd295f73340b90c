// Makes text of any origin fit for the wire: valid UTF-8, cut to a limit at a character's edge.
//
// Worker output and host names are bytes; JSON strings are not. What is invalid becomes U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

bool is_valid_utf8(std::string_view bytes);

// Every byte that belongs to no well-formed sequence becomes U+FFFD (3 bytes): the text may grow.
std::string to_valid_utf8(std::string_view bytes);

// The first, or the last, at most `bytes_max` bytes of valid UTF-8, never part of a character.
std::string_view first_of(std::string_view text, std::size_t bytes_max);
std::string_view last_of(std::string_view text, std::size_t bytes_max);

// All but the beginning of a character at the end, of which more may come. Any bytes.
std::string_view without_begun(std::string_view bytes);

}  // namespace ddprun
