// How the workers of a round ended, by ranges of ranks: what a report says of those that were not
// its root cause, in a size that does not grow with the world.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// In the order of a report, which leaves out the last ones if there are too many.
enum class ending {
  failed,     // for a reason of its own, as far as it says
  secondary,  // because another one was gone, as it says itself
  lost,       // with its node: it is not known how
  killed,     // by our SIGKILL, because it had not ended before
  stopped,    // after we had asked it to
  succeeded,  // its work was done
};
std::string_view to_string(ending value);  // the word of the protocol

// How long after the start of the round the first and the last of some workers ended, by their
// nodes' clocks.
struct end_times {
  std::chrono::milliseconds first{};
  std::chrono::milliseconds last{};  // >= first
  bool operator==(const end_times&) const = default;
};

// Consecutive ranks that ended alike.
struct ended_ranks {
  ending how = ending::failed;
  std::uint32_t first = 0;
  std::uint32_t last = 0;          // inclusive; >= first
  std::optional<end_times> after;  // none: that is not known of all
  int code = 0;  // of all: an exit status; below 0: a signal; 0: neither, or not the same
  bool operator==(const ended_ranks&) const = default;
};

// How many a status has of a node, and a report of a round; further ones are left out.
inline constexpr std::size_t ends_max = 8;
inline constexpr int end_code_max = 65536;  // of an exit status

// The protocol's form, a text for each ending: "secondary 0-2", "killed 7,9-11". The ranges are
// those of `merged`. Reading appends what one text says; false, and nothing is appended: it is not
// such a text.
std::vector<std::string> to_texts(const std::vector<ended_ranks>& values);
bool read_ended_ranks(std::string_view text, std::vector<ended_ranks>& values);

// The rest, a text for each range: "8200", "8200-8400 exit 1", "8200 signal 6", "" if nothing is
// known. False, and nothing is changed: it is not such a text.
std::string detail_text(const ended_ranks& value);
bool read_detail(std::string_view text, ended_ranks& value);

// Sorted, with adjacent ranges joined; at most ends_max of them.
std::vector<ended_ranks> merged(std::vector<ended_ranks> parts);

}  // namespace ddprun
