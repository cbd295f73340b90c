#include "rendezvous/protocol/tcpstore_reply_parser.hpp"

#include "rendezvous/protocol/tcpstore_replies.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tcpstore_goldens.hpp"

#include <array>
#include <string>
#include <vector>

using namespace ddprun::protocol::tcpstore;
using ddprun::errc;
using ddprun::tests::hex;
using ddprun::tests::length_of;
using heard = reply_parser::outcome;

namespace {

// Replies as torch 2.11's server has been seen to send them.
struct golden_reply {
  const char* name;
  opcode code;
  std::size_t keys;
  std::int64_t number;
  std::vector<std::string> strings;
  const char* bytes;
};

const std::vector<golden_reply>& golden_replies() {
  using enum opcode;
  static const std::vector<golden_reply> all{
      {"VALIDATE", validate, 0, 0, {}, ""},
      {"SET", set, 0, 0, {}, ""},
      {"COMPARE_SET", compare_set, 0, 0, {"v"}, "0100000000000000 76"},
      {"GET", get, 0, 0, {"v1"}, "0200000000000000 7631"},
      {"GET empty", get, 0, 0, {""}, "0000000000000000"},
      {"ADD", add, 0, 5, {}, "0500000000000000"},
      {"ADD negative", add, 0, -2, {}, "FEFFFFFFFFFFFFFF"},
      {"CHECK ready", check, 0, 0, {}, "00"},
      {"CHECK not ready", check, 0, 1, {}, "01"},
      {"WAIT", wait, 0, 0, {}, "00"},
      {"GETNUMKEYS", get_num_keys, 0, 3, {}, "0300000000000000"},
      {"DELETE_KEY", delete_key, 0, 1, {}, "0100000000000000"},
      {"APPEND", append, 0, 0, {}, ""},
      {"MULTI_GET", multi_get, 2, 0, {"a", ""}, "0100000000000000 61 0000000000000000"},
      {"MULTI_GET nothing", multi_get, 0, 0, {}, ""},
      {"MULTI_SET", multi_set, 2, 0, {}, ""},
      {"CANCEL_WAIT", cancel_wait, 0, 1, {}, "01"},
      {"PING", ping, 0, 0xF0010203, {}, "030201F0"},
      {"QUEUE_PUSH", queue_push, 0, 0, {}, ""},
      {"QUEUE_POP", queue_pop, 0, 2, {"x"}, "0200000000000000 0100000000000000 78"},
      {"QUEUE_POP empty", queue_pop, 0, 0, {}, "0000000000000000"},
      {"QUEUE_LEN", queue_len, 0, 7, {}, "0700000000000000"},
      {"LIST_KEYS",
       list_keys,
       0,
       2,
       {"/k", "init/"},
       "0200000000000000 0200000000000000 2F6B 0500000000000000 696E69742F"},
      {"BARRIER", barrier, 0, 0, {}, "00"},
  };
  return all;
}

void check_reply_is(const reply& parsed, const golden_reply& golden) {
  CHECK(parsed.number == golden.number);
  CHECK(std::vector<std::string>(parsed.strings.begin(), parsed.strings.end()) == golden.strings);
}

ddprun::error_code reply_failure(opcode code, const std::string& bytes, std::size_t keys = 0) {
  reply_parser parser(code, keys);
  reply parsed;
  if (parser.parse(bytes, parsed) != heard::failed) return {};
  return parser.error();
}

}  // namespace

TEST_CASE("every reply is read from its golden bytes, and no byte further") {
  for (const golden_reply& golden : golden_replies()) {
    INFO(golden.name);
    const std::string bytes = hex(golden.bytes);
    for (const std::string behind : {"", "\1\2\3\4\5\6\7\10\11"}) {
      reply_parser parser(golden.code, golden.keys);
      reply parsed;
      REQUIRE(parser.parse(bytes + behind, parsed) == heard::complete);
      CHECK(parser.consumed() == bytes.size());
      const std::string all = bytes + behind;
      REQUIRE(reply_parser(golden.code, golden.keys).parse(all, parsed) == heard::complete);
      check_reply_is(parsed, golden);
    }
  }
}

TEST_CASE("every prefix of a reply is incomplete, and asks for bytes that come") {
  for (const golden_reply& golden : golden_replies()) {
    INFO(golden.name);
    const std::string bytes = hex(golden.bytes);
    reply_parser growing(golden.code, golden.keys);
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
      const std::string here(bytes, 0, length);  // in memory that moves
      reply parsed;
      reply_parser fresh(golden.code, golden.keys);
      for (reply_parser* const parser : {&fresh, &growing}) {
        const heard now = parser->parse(here, parsed);
        if (length == bytes.size()) {
          REQUIRE(now == heard::complete);
          check_reply_is(parsed, golden);
          continue;
        }
        REQUIRE(now == heard::incomplete);
        CHECK(parser->bytes_wanted() > length);
        CHECK(parser->bytes_wanted() <= bytes.size());
      }
    }
  }
}

TEST_CASE("what our store writes is what its client reads") {
  replies pending;
  pending.add_i64(3);
  pending.add_value(std::make_shared<std::string>(5000, 'v'));
  std::array<std::string_view, 4> pieces;
  std::string all;
  const std::size_t count = pending.gather(pieces);
  for (std::size_t index = 0; index < count; ++index)
    all += pieces[index];
  reply_parser parser(opcode::queue_pop);
  reply parsed;
  REQUIRE(parser.parse(all, parsed) == heard::complete);
  CHECK(parsed.number == 3);
  REQUIRE(parsed.strings.size() == 1);
  CHECK(parsed.strings[0] == std::string(5000, 'v'));
}

TEST_CASE("a length that cannot be is refused as soon as it is there") {
  using enum opcode;
  for (const std::uint64_t length :
       {std::uint64_t{reply_value_bytes_max + 1}, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
        ~std::uint64_t{0}}) {
    CHECK(reply_failure(get, length_of(length)) == errc::message_too_long);
    CHECK(reply_failure(compare_set, length_of(length)) == errc::message_too_long);
    CHECK(reply_failure(multi_get, length_of(0) + length_of(length), 2) == errc::message_too_long);
    CHECK(reply_failure(queue_pop, length_of(1) + length_of(length)) == errc::message_too_long);
    CHECK(reply_failure(list_keys, length_of(1) + length_of(length)) == errc::message_too_long);
  }
  CHECK_FALSE(reply_failure(get, length_of(reply_value_bytes_max)));
  CHECK_FALSE(reply_failure(list_keys, length_of(1) + length_of(key_bytes_max)));
  CHECK(reply_failure(list_keys, length_of(1) + length_of(key_bytes_max + 1)) ==
        errc::message_too_long);
  CHECK_FALSE(reply_failure(list_keys, length_of(listed_keys_max)));
  CHECK(reply_failure(list_keys, length_of(listed_keys_max + 1)) == errc::message_too_long);
}

TEST_CASE("a reply is bounded as a whole") {
  const std::size_t each = reply_value_bytes_max;
  std::string bytes;
  bytes.reserve(reply_bytes_max);
  for (int index = 0; index < 3; ++index) {
    bytes += length_of(each);
    bytes.append(each, 'x');
  }
  CHECK_FALSE(reply_failure(opcode::multi_get, bytes, 5));
  bytes += length_of(each);
  CHECK(reply_failure(opcode::multi_get, bytes, 5) == errc::message_too_long);
}

TEST_CASE("numbers that no store says are refused") {
  using enum opcode;
  for (const opcode code : {get_num_keys, delete_key, queue_len, queue_pop, list_keys}) {
    CHECK(reply_failure(code, length_of(std::uint64_t{1} << 63)) == errc::malformed_message);
    CHECK(reply_failure(code, length_of(~std::uint64_t{0})) == errc::malformed_message);
  }
  CHECK(reply_failure(delete_key, length_of(2)) == errc::malformed_message);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    CHECK(reply_failure(check, bytes) ==
          (byte <= 1 ? ddprun::error_code() : errc::malformed_message));
    for (const opcode code : {wait, barrier}) {
      CHECK(reply_failure(code, bytes) ==
            (byte == 0 ? ddprun::error_code() : errc::malformed_message));
    }
    CHECK(reply_failure(cancel_wait, bytes) ==
          (byte == 1 ? ddprun::error_code() : errc::malformed_message));
  }
  CHECK_FALSE(reply_failure(add, length_of(~std::uint64_t{0})));
}
