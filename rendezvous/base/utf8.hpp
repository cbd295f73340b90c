// Makes any text fit for the wire: valid UTF-8, cut to a limit between characters.
//
// Worker output and host names are bytes; JSON strings are not. Invalid bytes become U+FFFD.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

bool is_valid_utf8(std::string_view bytes);

// Every byte outside of a well-formed sequence becomes U+FFFD (3 bytes), so the text may grow.
std::string to_valid_utf8(std::string_view bytes);

// The first or last `bytes_max` bytes of valid UTF-8 at most, never a part of a character.
std::string_view first_of(std::string_view text, std::size_t bytes_max);
std::string_view last_of(std::string_view text, std::size_t bytes_max);

// Removes an incomplete character from the end, because the rest of it may still come. Takes any
// bytes.
std::string_view without_begun(std::string_view bytes);

}  // namespace ddprun
