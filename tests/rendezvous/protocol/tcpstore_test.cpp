#include "rendezvous/protocol/tcpstore.hpp"

#include "rendezvous/protocol/tcpstore_replies.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tcpstore_goldens.hpp"

#include <array>
#include <string>
#include <vector>

using namespace ddprun::protocol::tcpstore;
using ddprun::errc;
using ddprun::tests::golden_request;
using ddprun::tests::golden_requests;
using ddprun::tests::hex;
using ddprun::tests::length_of;
using outcome = request_parser::outcome;

namespace {

void check_is(const request& parsed, const golden_request& golden) {
  CHECK(parsed.code == golden.code);
  CHECK(parsed.number == golden.number);
  REQUIRE(parsed.size() == golden.strings.size());
  for (std::size_t index = 0; index < parsed.size(); ++index) {
    CHECK(parsed[index] == golden.strings[index]);
  }
}

// The error of a request of which only these bytes have arrived.
ddprun::error_code failure(const std::string& bytes) {
  request_parser parser;
  request parsed;
  if (parser.parse(bytes, parsed) != outcome::failed) return {};
  return parser.error();
}

std::string sent(const replies& pending) {
  std::array<std::string_view, 64> pieces;
  std::string all;
  const std::size_t count = pending.gather(pieces);
  for (std::size_t index = 0; index < count; ++index)
    all += pieces[index];
  return all;
}

}  // namespace

TEST_CASE("every request is read from, and written as, its golden bytes") {
  CHECK(golden_requests().size() >= 19);
  for (const golden_request& golden : golden_requests()) {
    INFO(golden.name);
    const std::string bytes = hex(golden.bytes);
    request_parser parser;
    request parsed;
    REQUIRE(parser.parse(bytes, parsed) == outcome::complete);
    CHECK(parser.consumed() == bytes.size());
    check_is(parsed, golden);
    std::string written;
    const std::vector<std::string_view> strings(golden.strings.begin(), golden.strings.end());
    append_request(written, golden.code, strings, golden.number);
    CHECK(written == bytes);
  }
}

TEST_CASE("every prefix of a request is incomplete, and asks for bytes that come") {
  for (const golden_request& golden : golden_requests()) {
    const std::string bytes = hex(golden.bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      request_parser parser;
      request parsed;
      INFO(golden.name << ", " << length << " bytes");
      REQUIRE(parser.parse(bytes.substr(0, length), parsed) == outcome::incomplete);
      CHECK(parser.bytes_wanted() > length);
      CHECK(parser.bytes_wanted() <= bytes.size());
    }
  }
}

TEST_CASE("a request may arrive byte by byte, in memory that moves") {
  request_parser parser;
  for (const golden_request& golden : golden_requests()) {
    const std::string bytes = hex(golden.bytes);
    INFO(golden.name);
    for (std::size_t length = 1; length <= bytes.size(); ++length) {
      const std::string here(bytes, 0, length);
      request parsed;
      const outcome now = parser.parse(here, parsed);
      REQUIRE(now == (length == bytes.size() ? outcome::complete : outcome::incomplete));
      if (now == outcome::complete) check_is(parsed, golden);
    }
  }
}

TEST_CASE("two requests in one piece are read one after the other, cut anywhere") {
  for (const golden_request& first : golden_requests()) {
    for (const golden_request& second : golden_requests()) {
      const std::string bytes = hex(first.bytes) + hex(second.bytes);
      const std::size_t first_size = hex(first.bytes).size();
      for (std::size_t cut = first_size; cut <= bytes.size(); ++cut) {
        request_parser parser;
        request parsed;
        REQUIRE(parser.parse(bytes.substr(0, cut), parsed) == outcome::complete);
        REQUIRE(parser.consumed() == first_size);
        const std::string rest = bytes.substr(first_size);
        const outcome now = parser.parse(rest.substr(0, cut - first_size), parsed);
        if (now == outcome::incomplete) REQUIRE(parser.parse(rest, parsed) == outcome::complete);
        REQUIRE(parsed.code == second.code);
        REQUIRE(parsed.size() == second.strings.size());
      }
    }
  }
}

TEST_CASE("an unknown opcode is refused") {
  for (int code = 19; code < 256; ++code) {
    CHECK(failure(std::string(1, static_cast<char>(code))) == errc::unknown_message);
  }
}

TEST_CASE("a length beyond its limit is refused as soon as it is there") {
  const std::string set(1, '\1');
  for (const std::uint64_t length :
       {std::uint64_t{key_bytes_max + 1}, std::uint64_t{1} << 31, std::uint64_t{1} << 32,
        std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    CHECK(failure(set + length_of(length)) == errc::message_too_long);
  }
  CHECK_FALSE(failure(set + length_of(key_bytes_max)));
  const std::string key = set + length_of(1) + "k";
  CHECK_FALSE(failure(key + length_of(value_bytes_max)));
  for (const std::uint64_t length :
       {std::uint64_t{value_bytes_max + 1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    CHECK(failure(key + length_of(length)) == errc::message_too_long);
  }
  const std::string compare = std::string(1, '\2') + length_of(0) + length_of(0);
  CHECK(failure(compare + length_of(value_bytes_max + 1)) == errc::message_too_long);
}

TEST_CASE("a count beyond its limit is refused as soon as it is there") {
  for (const char code : {'\5', '\6', '\12', '\13'}) {  // CHECK, WAIT, MULTI_GET, MULTI_SET
    const std::string start(1, code);
    CHECK_FALSE(failure(start + length_of(keys_per_request_max)));
    CHECK(failure(start + length_of(keys_per_request_max + 1)) == errc::message_too_long);
    CHECK(failure(start + length_of(~std::uint64_t{0} >> 1)) == errc::message_too_long);
    CHECK(failure(start + length_of(std::uint64_t{1} << 63)) == errc::malformed_message);
    CHECK(failure(start + length_of(~std::uint64_t{0})) == errc::malformed_message);
  }
}

TEST_CASE("no length field of any request is believed beyond its limit") {
  int fields = 0;
  for (const golden_request& golden : golden_requests()) {
    const std::string bytes = hex(golden.bytes);
    const bool counted = golden.code == opcode::check || golden.code == opcode::wait ||
                         golden.code == opcode::multi_get || golden.code == opcode::multi_set;
    std::size_t at = counted ? 9 : 1;
    for (const std::string& text : golden.strings) {
      for (const std::uint64_t length :
           {std::uint64_t{value_bytes_max + 1}, std::uint64_t{1} << 31, std::uint64_t{1} << 32,
            ~std::uint64_t{0} >> 1, std::uint64_t{1} << 63, ~std::uint64_t{0} - 7,
            ~std::uint64_t{0}}) {
        INFO(golden.name << ", " << length << " at " << at);
        // It fails at once, and also with the rest of the request behind it.
        CHECK(failure(bytes.substr(0, at) + length_of(length)) == errc::message_too_long);
        CHECK(failure(bytes.substr(0, at) + length_of(length) + bytes.substr(at + 8)) ==
              errc::message_too_long);
      }
      at += 8 + text.size();
      ++fields;
    }
  }
  CHECK(fields == 26);
}

TEST_CASE("a request is bounded as a whole") {
  std::string bytes(1, '\13');  // MULTI_SET
  bytes += length_of(9);
  const std::string value(value_bytes_max, 'x');
  for (int index = 0; index < 7; ++index) {
    bytes += length_of(1) + "k" + length_of(value.size()) + value;
  }
  CHECK_FALSE(failure(bytes));
  CHECK(failure(bytes + length_of(1) + "k" + length_of(value.size())) == errc::message_too_long);
}

TEST_CASE("in a list of pairs each key and each value has its own limit") {
  std::string bytes(1, '\13');
  bytes += length_of(2) + length_of(1) + "k" + length_of(key_bytes_max + 1);
  CHECK_FALSE(failure(bytes));
  bytes += std::string(key_bytes_max + 1, 'v');
  CHECK(failure(bytes + length_of(key_bytes_max + 1)) == errc::message_too_long);
}

TEST_CASE("replies have their golden bytes") {
  replies pending;
  CHECK(pending.empty());
  pending.add_byte(reply_wait_canceled);
  CHECK(sent(pending) == hex("01"));
  pending.add_i64(-2);
  pending.add_u32(0x01020304);
  pending.add_string("/k");
  pending.add_value(std::make_shared<std::string>("v1"));
  pending.add_value(nullptr);
  const std::string all =
      hex("01 FEFFFFFFFFFFFFFF 04030201 0200000000000000 2F6B 0200000000000000 7631 "
          "0000000000000000");
  CHECK(sent(pending) == all);
  CHECK(pending.bytes_left() == all.size());
  pending.consume(all.size());
  CHECK(pending.empty());
}

TEST_CASE("a long row of values that are small each is not copied beyond its bound") {
  const auto value = std::make_shared<std::string>(replies::shared_from_bytes - 1, 'v');
  const auto tiny = std::make_shared<std::string>(replies::always_copied_bytes - 1, 't');
  replies pending;
  const std::size_t count = 20000;
  for (std::size_t index = 0; index < count; ++index) {
    pending.add_value(value);
    pending.add_value(tiny);
  }
  CHECK(tiny.use_count() == 1);
  const auto shared = static_cast<std::size_t>(value.use_count() - 1);
  CHECK((count - shared) * value->size() <= replies::copied_bytes_max + value->size());
  std::string one;
  append_string(one, *value);
  append_string(one, *tiny);
  REQUIRE(pending.bytes_left() == count * one.size());
  bool right = true;
  while (!pending.empty()) {
    const std::size_t before = pending.bytes_left();
    std::string all = sent(pending).substr(0, one.size());
    right = right && all == one.substr(0, all.size()) && all.size() == one.size();
    pending.consume(all.size());
    REQUIRE(pending.bytes_left() < before);
  }
  CHECK(right);
  CHECK(value.use_count() == 1);
}

TEST_CASE("large values are shared, and sent whole from any point") {
  const auto large = std::make_shared<std::string>(replies::shared_from_bytes, 'L');
  const auto other = std::make_shared<std::string>(replies::shared_from_bytes + 3, 'O');
  const auto fill = [&](replies& pending) {
    pending.add_byte(1);
    pending.add_value(large);
    pending.add_value(other);
    pending.add_string("end");
  };
  replies whole;
  fill(whole);
  CHECK(large.use_count() == 2);
  const std::string all = sent(whole);
  REQUIRE(all.size() == whole.bytes_left());
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    replies pending;
    fill(pending);
    pending.consume(cut);
    REQUIRE(pending.bytes_left() == all.size() - cut);
    REQUIRE(sent(pending) == all.substr(cut));
    if (cut > 10 + large->size()) REQUIRE(large.use_count() == 2);  // only `whole` holds it
    pending.add_byte(7);
    pending.consume(all.size() - cut);
    REQUIRE(sent(pending) == "\7");
  }
}
