#include "rendezvous/protocol/tcpstore.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace ddprun::protocol::tcpstore {
// The fields after an opcode. `strings` is their number or, if a count comes first, the number for
// each counted item. Keys are the first string of the request, or the first of each counted item;
// the others are values.
struct request_shape {
  bool counted;
  std::uint8_t strings;
  std::uint8_t number_bytes;

  bool is_key(std::size_t index) const { return counted ? index % strings == 0 : index == 0; }
};

namespace {

constexpr std::array<request_shape, 19> request_shapes{{
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

template <typename T>
T load(const char* bytes) {
  // The wire has the client's byte order; like PyTorch, we support little-endian hosts only.
  static_assert(std::endian::native == std::endian::little);
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

request_parser::outcome request_parser::want(std::size_t bytes) {
  wanted_ = static_cast<std::uint32_t>(bytes);
  return outcome::incomplete;
}

request_parser::outcome request_parser::fail(errc error) {
  error_ = error;
  return outcome::failed;
}

request_parser::outcome request_parser::parse(std::string_view bytes, request& parsed) {
  if (bytes.empty()) return want(1);
  const auto code = static_cast<std::uint8_t>(bytes.front());
  if (code >= request_shapes.size()) return fail(errc::unknown_message);
  const request_shape& form = request_shapes[code];
  parsed.code = static_cast<opcode>(code);
  // A long request has been started: continue it instead of reading its strings again.
  if (many_) return parse_many(bytes, form, parsed);
  std::size_t total = form.strings;
  std::size_t scanned = 1;
  if (form.counted) {
    if (const outcome step = parse_count(bytes, form, total); step != outcome::complete) {
      return step;
    }
    scanned += length_bytes;
  }
  if (total > parsed.few_.size()) {
    many_ = std::make_unique<progress>(progress{.total = total, .scanned = scanned});
    return parse_many(bytes, form, parsed);
  }
  for (std::size_t index = 0; index < total; ++index) {
    const outcome step = parse_string(bytes, form.is_key(index), scanned, parsed.few_[index]);
    if (step != outcome::complete) return step;
  }
  parsed.size_ = total;
  return complete(bytes, form, scanned, parsed);
}

request_parser::outcome request_parser::parse_count(std::string_view bytes,
                                                    const request_shape& form, std::size_t& total) {
  if (bytes.size() < 1 + length_bytes) return want(1 + length_bytes);
  const auto count = load<std::uint64_t>(bytes.data() + 1);
  if (static_cast<std::int64_t>(count) < 0) return fail(errc::malformed_message);
  if (count > keys_per_request_max) return fail(errc::message_too_long);
  total = static_cast<std::size_t>(count) * form.strings;
  return outcome::complete;
}

request_parser::outcome request_parser::parse_string(std::string_view bytes, bool is_key,
                                                     std::size_t& scanned, request::place& place) {
  if (bytes.size() - scanned < length_bytes) return want(scanned + length_bytes);
  const auto length = load<std::uint64_t>(bytes.data() + scanned);
  if (length > (is_key ? key_bytes_max : value_bytes_max)) return fail(errc::message_too_long);
  const std::size_t start = scanned + length_bytes;
  if (start + length > request_bytes_max) return fail(errc::message_too_long);
  if (bytes.size() - start < length) return want(start + static_cast<std::size_t>(length));
  place = {static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(length)};
  scanned = start + static_cast<std::size_t>(length);
  return outcome::complete;
}

request_parser::outcome request_parser::parse_many(std::string_view bytes,
                                                   const request_shape& form, request& parsed) {
  auto& strings = many_->strings;
  while (strings.size() < many_->total) {
    request::place next{};
    const outcome step = parse_string(bytes, form.is_key(strings.size()), many_->scanned, next);
    if (step != outcome::complete) return step;
    strings.push_back(next);
  }
  parsed.size_ = many_->total;
  parsed.many_ = std::move(strings);
  const std::size_t scanned = many_->scanned;
  many_.reset();  // such a request has no number after its strings, so it is complete
  return complete(bytes, form, scanned, parsed);
}

request_parser::outcome request_parser::complete(std::string_view bytes, const request_shape& form,
                                                 std::size_t scanned, request& parsed) {
  if (bytes.size() - scanned < form.number_bytes) return want(scanned + form.number_bytes);
  const char* const number = bytes.data() + scanned;
  parsed.number = form.number_bytes == 8   ? load<std::int64_t>(number)
                  : form.number_bytes == 4 ? static_cast<std::int64_t>(load<std::uint32_t>(number))
                                           : 0;
  parsed.bytes_ = bytes.data();
  consumed_ = static_cast<std::uint32_t>(scanned + form.number_bytes);
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
  const request_shape& form = request_shapes[static_cast<std::uint8_t>(code)];
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
