#include "rendezvous/protocol/tcpstore_reply_parser.hpp"

#include <array>
#include <cstring>

namespace ddprun::protocol::tcpstore {
namespace {

constexpr std::int64_t any_low = INT64_MIN;
constexpr std::int64_t any_high = INT64_MAX;

// A number of this many bytes in this range, then this many strings (`by_number`: as many as the
// number says; `by_request`: as many as were requested; `if_any`: one unless the number is 0).
enum class strings_after { none, one, by_number, by_request, if_any };
struct reply_shape {
  std::uint8_t number_bytes;
  std::int64_t low;
  std::int64_t high;
  strings_after strings;
};

constexpr reply_shape nothing{0, 0, 0, strings_after::none};
constexpr reply_shape value{0, 0, 0, strings_after::one};
constexpr reply_shape sum{8, any_low, any_high, strings_after::none};
constexpr reply_shape count{8, 0, any_high, strings_after::none};

constexpr std::array<reply_shape, 19> reply_shapes{{
    nothing,                                            // validate
    nothing,                                            // set
    value,                                              // compare_set
    value,                                              // get
    sum,                                                // add
    {1, reply_ready, reply_not_ready, {}},              // check
    {1, reply_stop_waiting, reply_stop_waiting, {}},    // wait
    count,                                              // get_num_keys
    {8, 0, 1, strings_after::none},                     // delete_key
    nothing,                                            // append
    {0, 0, 0, strings_after::by_request},               // multi_get
    nothing,                                            // multi_set
    {1, reply_wait_canceled, reply_wait_canceled, {}},  // cancel_wait
    {4, 0, UINT32_MAX, strings_after::none},            // ping
    nothing,                                            // queue_push
    {8, 0, any_high, strings_after::if_any},            // queue_pop
    count,                                              // queue_len
    {8, 0, listed_keys_max, strings_after::by_number},  // list_keys
    {1, reply_stop_waiting, reply_stop_waiting, {}},    // barrier
}};

const reply_shape& shape_of(opcode code) {
  return reply_shapes[static_cast<std::uint8_t>(code)];
}

}  // namespace

reply_parser::reply_parser(opcode code, std::size_t keys)
    : code_(code), number_pending_(shape_of(code).number_bytes != 0) {
  if (shape_of(code).strings == strings_after::one) strings_total_ = 1;
  if (shape_of(code).strings == strings_after::by_request) strings_total_ = keys;
}

reply_parser::outcome reply_parser::want(std::size_t bytes) {
  wanted_ = bytes;
  return outcome::incomplete;
}

reply_parser::outcome reply_parser::fail(errc error) {
  error_ = error;
  return outcome::failed;
}

reply_parser::outcome reply_parser::scan_number(std::string_view bytes) {
  const reply_shape& form = shape_of(code_);
  if (bytes.size() < form.number_bytes) return want(form.number_bytes);
  // Little-endian, zero-extended below 8 bytes; tcpstore.cpp asserts the host's byte order.
  std::memcpy(&number_, bytes.data(), form.number_bytes);
  if (number_ < form.low) return fail(errc::malformed_message);
  if (number_ > form.high) {
    // A long list is a limit of ours; any other number out of range is nonsense.
    return fail(code_ == opcode::list_keys ? errc::message_too_long : errc::malformed_message);
  }
  if (form.strings == strings_after::by_number) strings_total_ = static_cast<std::size_t>(number_);
  if (form.strings == strings_after::if_any) strings_total_ = number_ == 0 ? 0 : 1;
  scanned_ = form.number_bytes;
  number_pending_ = false;
  return outcome::complete;
}

reply_parser::outcome reply_parser::scan_strings(std::string_view bytes) {
  const std::size_t limit = code_ == opcode::list_keys ? key_bytes_max : reply_value_bytes_max;
  while (places_.size() < strings_total_) {
    if (bytes.size() - scanned_ < length_bytes) return want(scanned_ + length_bytes);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + scanned_, length_bytes);
    const std::size_t start = scanned_ + length_bytes;
    if (length > limit || start + length > reply_bytes_max) return fail(errc::message_too_long);
    if (bytes.size() - start < length) return want(start + static_cast<std::size_t>(length));
    places_.emplace_back(start, static_cast<std::size_t>(length));
    scanned_ = start + static_cast<std::size_t>(length);
  }
  return outcome::complete;
}

reply_parser::outcome reply_parser::parse(std::string_view bytes, reply& parsed) {
  if (number_pending_) {
    if (const outcome step = scan_number(bytes); step != outcome::complete) return step;
  }
  if (const outcome step = scan_strings(bytes); step != outcome::complete) return step;
  parsed.number = number_;
  parsed.strings.clear();
  parsed.strings.reserve(places_.size());
  for (const auto& [offset, length] : places_)
    parsed.strings.push_back(bytes.substr(offset, length));
  return outcome::complete;
}

}  // namespace ddprun::protocol::tcpstore
