// How the workers of a round ended, by stretches of ranks: what a report says of those that were
// not its root cause, in a size that does not grow with the world.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// The order is that of a report, which leaves the last ones out where there are too many.
enum class ending {
  failed,     // for a reason of its own, as far as its words show
  secondary,  // by its own words because another one was gone
  lost,       // with its node: nobody has seen how
  killed,     // by our SIGKILL, which it was sent when it did not end before
  stopped,    // after we had asked it to
  succeeded,  // its work was done
};
std::string_view to_string(ending value);  // the word of the protocol

// After how long in the round the first and the last of some workers ended, by their nodes' clocks.
struct end_times {
  std::chrono::milliseconds first{};
  std::chrono::milliseconds last{};  // >= first
  bool operator==(const end_times&) const = default;
};

// Ranks that follow each other and ended alike.
struct ended_ranks {
  ending how = ending::failed;
  std::uint32_t first = 0;
  std::uint32_t last = 0;          // this one, too; >= first
  std::optional<end_times> after;  // none: that is not known of all
  int code = 0;  // of all: an exit status, below 0 a signal; 0: neither, or not the same
  bool operator==(const ended_ranks&) const = default;
};

// Of a node in a status, and of a round in a report. What is beyond is not told.
inline constexpr std::size_t ends_max = 8;
inline constexpr int end_code_max = 65536;  // of an exit status

// As the protocol has it, a text for each ending: "secondary 0-2", "killed 7,9-11". The stretches
// are those of `merged`. Reading appends what one text says; false, and nothing is appended, where
// it is no such text.
std::vector<std::string> to_texts(const std::vector<ended_ranks>& values);
bool read_ended_ranks(std::string_view text, std::vector<ended_ranks>& values);

// The rest, a text for each stretch: "8200", "8200-8400 exit 1", "8200 signal 6", "" where nothing
// is known. False, and nothing is changed, where it is no such text.
std::string detail_text(const ended_ranks& value);
bool read_detail(std::string_view text, ended_ranks& value);

// Sorted, stretches that touch made one, at most ends_max of them.
std::vector<ended_ranks> merged(std::vector<ended_ranks> parts);

}  // namespace ddprun
