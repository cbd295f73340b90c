// One conversation at a probe port, as the node that is asked has it: what bytes mean, and what is
// said back.
//
//   asker:    "ddprun doctor 1\n"          this node:  its token, 32 bytes
//             "t"                                      its clock: 8 bytes, little-endian, ns since
//             1970 "b" and 8 bytes: a length,               "k", when the last of them is here then
//             so many bytes of anything
//
// Bytes may come in any pieces. Whoever begins otherwise is a stranger and hears nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher::doctor {

inline constexpr std::string_view probe_greeting = "ddprun doctor 1\n";
inline constexpr std::size_t token_bytes = 32;
inline constexpr std::uint64_t probe_bytes_max = std::uint64_t{1} << 32;

class probe_conversation {
 public:
  explicit probe_conversation(std::string token) : token_(std::move(token)) {}

  // `clock` is this node's, ns since 1970. False: not ours, or not in order: close.
  bool take(std::string_view bytes, std::int64_t clock, std::string& answer);

  // It has greeted as one of us does.
  bool is_known() const { return greeted_ == probe_greeting.size(); }

 private:
  bool take_length(std::string_view& bytes);

  std::string token_;
  std::size_t greeted_ = 0;
  int length_bytes_missing_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t bytes_missing_ = 0;
};

// This node's: ns since 1970.
std::int64_t wall_clock();

// The eight bytes of a clock or a length.
std::string eight_bytes(std::uint64_t value);
std::uint64_t number_of_eight_bytes(std::string_view bytes);

}  // namespace ddprun::launcher::doctor
