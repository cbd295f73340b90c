#include "rendezvous/protocol/tcpstore.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace ddprun::protocol::tcpstore {
namespace {

// What follows an opcode. `strings` is their number, or, where there is a count in front, the
// number for each counted one. Strings that are not values are keys: the first of the request, or
// the first of each counted group.
struct shape {
  bool counted;
  std::uint8_t strings;
  std::uint8_t number_bytes;
};

constexpr std::array<shape, 19> shapes{{
    {false, 0, 4},  // validate
    {false, 2, 0},  // set
    {false, 3, 0},  // compare_set
    {false, 1, 0},  // get
    {false, 1, 8},  // add
    {true, 1, 0},   // check
    {true, 1, 0},   // wait
    {false, 0, 0},  // get_num_keys
    {false, 1, 0},  // delete_key
    {false, 2, 0},  // append
    {true, 1, 0},   // multi_get
    {true, 2, 0},   // multi_set
    {false, 0, 0},  // cancel_wait
    {false, 0, 4},  // ping
    {false, 2, 0},  // queue_push
    {false, 1, 0},  // queue_pop
    {false, 1, 0},  // queue_len
    {false, 0, 0},  // list_keys
    {false, 1, 8},  // barrier
}};

constexpr std::size_t length_bytes = 8;

// Places kept for the next request; what a huge one needed beyond that is given back.
constexpr std::size_t places_kept_max = 1024;

template <typename T>
T load(const char* bytes) {
  // The wire is the host order of the client; like PyTorch we run on little-endian hosts only.
  static_assert(std::endian::native == std::endian::little);
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

request_parser::outcome request_parser::want(std::size_t bytes) {
  wanted_ = bytes;
  return outcome::incomplete;
}

request_parser::outcome request_parser::fail(errc error) {
  error_ = error;
  return outcome::failed;
}

request_parser::outcome request_parser::begin(std::string_view bytes) {
  if (bytes.empty()) return want(1);
  code_ = static_cast<std::uint8_t>(bytes.front());
  if (code_ >= shapes.size()) return fail(errc::unknown_message);
  strings_.clear();
  if (strings_.capacity() > places_kept_max) strings_.shrink_to_fit();
  count_pending_ = shapes[code_].counted;
  strings_total_ = count_pending_ ? 0 : shapes[code_].strings;
  scanned_ = 1;
  return outcome::complete;
}

request_parser::outcome request_parser::scan_count(std::string_view bytes) {
  if (bytes.size() - scanned_ < length_bytes) return want(scanned_ + length_bytes);
  const auto count = load<std::uint64_t>(bytes.data() + scanned_);
  if (static_cast<std::int64_t>(count) < 0) return fail(errc::malformed_message);
  if (count > keys_per_request_max) return fail(errc::message_too_long);
  strings_total_ = static_cast<std::size_t>(count) * shapes[code_].strings;
  scanned_ += length_bytes;
  count_pending_ = false;
  return outcome::complete;
}

request_parser::outcome request_parser::scan_strings(std::string_view bytes) {
  const shape form = shapes[code_];
  while (strings_.size() < strings_total_) {
    if (bytes.size() - scanned_ < length_bytes) return want(scanned_ + length_bytes);
    const auto length = load<std::uint64_t>(bytes.data() + scanned_);
    const std::size_t index = strings_.size();
    const bool is_key = form.counted ? index % form.strings == 0 : index == 0;
    if (length > (is_key ? key_bytes_max : value_bytes_max)) return fail(errc::message_too_long);
    const std::size_t start = scanned_ + length_bytes;
    if (start + length > request_bytes_max) return fail(errc::message_too_long);
    if (bytes.size() - start < length) return want(start + static_cast<std::size_t>(length));
    strings_.push_back({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(length)});
    scanned_ = start + static_cast<std::size_t>(length);
  }
  return outcome::complete;
}

request_parser::outcome request_parser::parse(std::string_view bytes, request& parsed) {
  if (scanned_ == 0) {
    if (const outcome step = begin(bytes); step != outcome::complete) return step;
  }
  if (count_pending_) {
    if (const outcome step = scan_count(bytes); step != outcome::complete) return step;
  }
  if (const outcome step = scan_strings(bytes); step != outcome::complete) return step;
  const std::size_t number_bytes = shapes[code_].number_bytes;
  if (bytes.size() - scanned_ < number_bytes) return want(scanned_ + number_bytes);
  parsed.code = static_cast<opcode>(code_);
  const char* const number = bytes.data() + scanned_;
  parsed.number = number_bytes == 8   ? load<std::int64_t>(number)
                  : number_bytes == 4 ? static_cast<std::int64_t>(load<std::uint32_t>(number))
                                      : 0;
  parsed.bytes_ = bytes.data();
  parsed.strings_ = strings_;
  consumed_ = scanned_ + number_bytes;
  scanned_ = 0;
  return outcome::complete;
}

void append_u32(std::string& out, std::uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_i64(std::string& out, std::int64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view value) {
  append_i64(out, static_cast<std::int64_t>(value.size()));
  out.append(value);
}

void append_request(std::string& out, opcode code, std::span<const std::string_view> strings,
                    std::int64_t number) {
  const shape form = shapes[static_cast<std::uint8_t>(code)];
  out.push_back(static_cast<char>(code));
  if (form.counted) append_i64(out, static_cast<std::int64_t>(strings.size() / form.strings));
  for (const std::string_view value : strings)
    append_string(out, value);
  if (form.number_bytes == 8) append_i64(out, number);
  if (form.number_bytes == 4) append_u32(out, static_cast<std::uint32_t>(number));
}

void append_request(std::string& out, opcode code, std::initializer_list<std::string_view> strings,
                    std::int64_t number) {
  append_request(out, code, std::span<const std::string_view>(strings.begin(), strings.size()),
                 number);
}

}  // namespace ddprun::protocol::tcpstore
