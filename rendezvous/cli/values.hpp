// Reads the values of options: whole numbers, node ranges, endpoints, names, seconds.
//
// Every function takes `given`, the option as the user wrote it ("--nnodes=3:2", "PET_NNODES" with
// its value), and starts its message with that.
#pragma once

#include "rendezvous/base/color.hpp"
#include "rendezvous/cli/usage_error.hpp"
#include "rendezvous/core/messages/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::cli {

inline constexpr std::uint16_t default_endpoint_port = 29400;  // torchrun's for c10d

struct node_range {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

struct endpoint_address {
  std::string host;        // a name or a numeric address, without brackets
  std::uint16_t port = 0;  // 0: chosen by the kernel, with --standalone only
};

// Trims both ends, where templates and files often leave blanks or line ends: torchrun reads
// numbers and endpoints with Python, which accepts them.
std::string_view without_blanks(std::string_view text);

// A whole number from `min` to `max`; `what` is what it counts ("restarts").
parsed<std::uint32_t> read_count(std::string_view given, std::string_view text,
                                 std::string_view what, std::uint32_t min, std::uint32_t max);

// "N" or "MIN:MAX", up to `max`.
parsed<node_range> read_node_range(std::string_view given, std::string_view text,
                                   std::uint32_t max);

// "host", "host:port", "[address]:port", or a bare IPv6 address.
parsed<endpoint_address> read_endpoint(std::string_view given, std::string_view text);

// A label of 1 to 256 printable characters without blanks.
parsed<std::string> read_name(std::string_view given, std::string_view text, std::string_view what);

// Seconds with an optional fraction: "10", "0.5". From 1 ms to 30 days; 0 only if `zero_allowed`.
parsed<duration> read_seconds(std::string_view given, std::string_view text, bool zero_allowed);

// One word of an option that accepts only certain words.
template <typename Meaning>
struct typed_word {
  std::string_view text;
  Meaning meaning;
};

// `choices` completes the sentence "write ...".
template <typename Meaning, std::size_t Count>
parsed<Meaning> read_word(std::string_view given, std::string_view text,
                          const typed_word<Meaning> (&words)[Count], std::string_view choices) {
  for (const typed_word<Meaning>& word : words) {
    if (word.text == text) return word.meaning;
  }
  return usage_error{std::string(given) + ": write " + std::string(choices)};
}

// debug, info, warning or error, and Python's warn and critical; case does not matter.
parsed<note_level> read_log_level(std::string_view given, std::string_view text);

// auto, always or never.
parsed<color_mode> read_color_mode(std::string_view given, std::string_view text);

// 0 to 65535; `meaning` explains 0 ("0 for a new one").
parsed<std::uint16_t> read_port(std::string_view given, std::string_view text,
                                std::string_view meaning);

// Python's and torch's words: 1, true, t, yes, y; 0, false, f, no, n; case does not matter.
std::optional<bool> read_truth(std::string_view text);

// "host:port", with brackets around an IPv6 address.
std::string to_text(const endpoint_address& endpoint);

}  // namespace ddprun::cli
