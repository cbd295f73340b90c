#include "tests/fuzz/naive_parser.hpp"

namespace ddprun::fuzz {
namespace {

namespace wire = protocol::tcpstore;

// Reads fields one after the other, and stops after the first that is short or wrong.
class cursor {
 public:
  explicit cursor(std::string_view bytes) : bytes_(bytes) {}

  bool good() const { return !short_ && error_ == errc::success; }
  bool is_short() const { return short_; }
  errc error() const { return error_; }
  std::size_t at() const { return at_; }

  std::uint64_t integer(std::size_t size) {
    const std::string_view field = take(size);
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < field.size(); ++index) {
      value |= std::uint64_t{static_cast<std::uint8_t>(field[index])} << (8 * index);
    }
    return value;
  }

  std::string text(std::size_t bytes_max) {
    const std::uint64_t length = integer(8);
    if (!good()) return {};
    if (length > bytes_max || at_ + length > wire::request_bytes_max) {
      error_ = errc::message_too_long;
      return {};
    }
    return std::string(take(static_cast<std::size_t>(length)));
  }
  std::string key() { return text(wire::key_bytes_max); }
  std::string value() { return text(wire::value_bytes_max); }

  std::uint64_t count() {
    const std::uint64_t number = integer(8);
    if (!good()) return 0;
    if (number >= std::uint64_t{1} << 63) {
      error_ = errc::malformed_message;
    } else if (number > wire::keys_per_request_max) {
      error_ = errc::message_too_long;
    }
    return good() ? number : 0;
  }

  void fail(errc error) { error_ = error; }

 private:
  std::string_view take(std::size_t count) {
    if (!good()) return {};
    if (bytes_.size() - at_ < count) {
      short_ = true;
      return {};
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool short_ = false;
  errc error_ = errc::success;
};

void read_fields(cursor& from, naive_request& request) {
  using enum wire::opcode;
  const auto key = [&] { request.strings.push_back(from.key()); };
  const auto value = [&] { request.strings.push_back(from.value()); };
  switch (request.code) {
    case get_num_keys:
    case cancel_wait:
    case list_keys:
      return;
    case validate:
    case ping:
      request.number = static_cast<std::int64_t>(from.integer(4));
      return;
    case get:
    case delete_key:
    case queue_pop:
    case queue_len:
      return key();
    case set:
    case append:
    case queue_push:
      key();
      return value();
    case compare_set:
      key();
      value();
      return value();
    case add:
    case barrier:
      key();
      request.number = static_cast<std::int64_t>(from.integer(8));
      return;
    case check:
    case wait:
    case multi_get:
      for (std::uint64_t left = from.count(); left != 0 && from.good(); --left)
        key();
      return;
    case multi_set:
      for (std::uint64_t left = from.count(); left != 0 && from.good(); --left) {
        key();
        value();
      }
      return;
  }
}

}  // namespace

naive_parsed naive_parse(std::string_view bytes) {
  cursor from(bytes);
  naive_parsed parsed;
  const std::uint64_t code = from.integer(1);
  if (from.good() && code > static_cast<std::uint64_t>(wire::opcode::barrier)) {
    from.fail(errc::unknown_message);
  }
  if (from.good()) {
    parsed.request.code = static_cast<wire::opcode>(code);
    read_fields(from, parsed.request);
  }
  parsed.error = from.error();
  parsed.bytes = from.at();
  if (from.error() != errc::success) {
    parsed.what = naive_parsed::outcome::failed;
  } else if (!from.is_short()) {
    parsed.what = naive_parsed::outcome::complete;
  }
  return parsed;
}

}  // namespace ddprun::fuzz
