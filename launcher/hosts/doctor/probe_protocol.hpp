// The protocol at a probe port, from the side of the node that is asked: what bytes mean, and the
// answers.
//
// asker: "ddprun doctor 1\n" -> this node's token, 32 bytes;
// asker: "t" -> this node's clock: 8 bytes, little-endian, ns since 1970;
// asker: "b", 8 bytes with a length, and that many bytes of any kind -> "k" after the last one.
//
// Bytes may arrive in any pieces. A peer that starts otherwise is a stranger and gets no answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::launcher::doctor {

inline constexpr std::string_view probe_greeting = "ddprun doctor 1\n";
inline constexpr std::size_t token_bytes = 32;
inline constexpr std::uint64_t probe_bytes_max = std::uint64_t{1} << 32;

class probe_protocol {
 public:
  explicit probe_protocol(std::string token) : token_(std::move(token)) {}

  // `clock` is this node's, ns since 1970. False: a stranger, or out of order; close.
  bool take(std::string_view bytes, std::int64_t clock, std::string& answer);

  // True once the peer has sent our greeting.
  bool is_known() const { return greeted_ == probe_greeting.size(); }

 private:
  bool take_length(std::string_view& bytes);

  std::string token_;
  std::size_t greeted_ = 0;
  int length_bytes_missing_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t bytes_missing_ = 0;
};

// This node's clock, ns since 1970.
std::int64_t wall_clock();

// A clock value or length as eight bytes.
std::string eight_bytes(std::uint64_t value);
std::uint64_t number_of_eight_bytes(std::string_view bytes);

}  // namespace ddprun::launcher::doctor
