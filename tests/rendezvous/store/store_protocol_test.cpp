#include "rendezvous/store/store_protocol.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/tcpstore_goldens.hpp"

#include <array>
#include <string>
#include <utility>

using ddprun::errc;
using ddprun::core::key_value_store;
using ddprun::store::store_protocol;
using ddprun::tests::golden_requests;
using ddprun::tests::hex;
using replies = ddprun::protocol::tcpstore::replies;
namespace wire = ddprun::protocol::tcpstore;
using enum ddprun::protocol::tcpstore::opcode;

namespace {

const std::string validate_bytes = hex("00 CEF7853C");

std::string take(replies& pending) {
  std::string all;
  while (!pending.empty()) {
    std::array<std::string_view, 16> pieces;
    const std::size_t count = pending.gather(pieces);
    std::size_t bytes = 0;
    for (std::size_t index = 0; index < count; ++index) {
      all += pieces[index];
      bytes += pieces[index].size();
    }
    pending.consume(bytes);
  }
  return all;
}

// A client and the replies that it has got.
struct client {
  explicit client(key_value_store& store) : values(store), talk(store) { say(validate_bytes); }

  // Feeds all of `bytes` after what was left before; returns the reply, followed by those of
  // clients that were woken.
  std::string say(const std::string& bytes) {
    unused += bytes;
    const auto used = talk.on_bytes(unused, pending);
    REQUIRE(used);
    unused.erase(0, *used);
    return take(pending);
  }
  std::string ask(wire::opcode code, std::initializer_list<std::string_view> strings = {},
                  std::int64_t number = 0) {
    std::string bytes;
    wire::append_request(bytes, code, strings, number);
    return say(bytes);
  }
  bool woken() { return std::erase(values.woken(), talk.id()) == 1; }

  key_value_store& values;
  store_protocol talk;
  replies pending;
  std::string unused;
};

ddprun::error_code failure(const std::string& bytes) {
  key_value_store values;
  store_protocol talk(values);
  replies pending;
  const auto used = talk.on_bytes(bytes, pending);
  return used ? ddprun::error_code() : used.error();
}

}  // namespace

TEST_CASE("the start of a 2.11 client is answered with its ping and its number") {
  key_value_store values;
  store_protocol talk(values);
  replies pending;
  const std::string start =
      hex("00 CEF7853C 0D 39300000 04 0500000000000000 696E69742F "
          "0100000000000000");
  CHECK(*talk.on_bytes(start, pending) == start.size());
  CHECK(talk.validated());
  CHECK(take(pending) == hex("39300000 0100000000000000"));
}

TEST_CASE("the first request is VALIDATE, and only the first") {
  CHECK(failure("GET / HTTP/1.1\r\n") == errc::wrong_protocol);
  CHECK(failure(hex("0D 00000000")) == errc::wrong_protocol);
  CHECK(failure(hex("00 CEF7853D")) == errc::wrong_protocol);
  CHECK(failure(validate_bytes + validate_bytes) == errc::wrong_protocol);
  CHECK(failure(validate_bytes + "\x13") == errc::unknown_message);
  CHECK_FALSE(failure(validate_bytes.substr(0, 3)));
}

TEST_CASE("every reply has its golden bytes") {
  key_value_store values;
  client c(values);
  CHECK(c.ask(set, {"/k", "v1"}).empty());
  CHECK(c.ask(get, {"/k"}) == hex("0200000000000000 7631"));
  CHECK(c.ask(get, {"/none"}) == hex("0000000000000000"));
  CHECK(c.ask(compare_set, {"/k", "v1", "v2"}) == hex("0200000000000000 7632"));
  CHECK(c.ask(add, {"/n"}, -3) == hex("FDFFFFFFFFFFFFFF"));
  CHECK(c.ask(check, {"/k", "/none"}) == hex("01"));
  CHECK(c.ask(check, {"/k", "/n"}) == hex("00"));
  CHECK(c.ask(check, {}) == hex("00"));
  CHECK(c.ask(wait, {"/k"}) == hex("00"));
  CHECK(c.ask(wait, {}) == hex("00"));
  CHECK(c.ask(get_num_keys) == hex("0200000000000000"));
  CHECK(c.ask(delete_key, {"/n"}) == hex("0100000000000000"));
  CHECK(c.ask(delete_key, {"/n"}) == hex("0000000000000000"));
  CHECK(c.ask(append, {"/k", "!"}).empty());
  CHECK(c.ask(multi_get, {"/k", "/none"}) == hex("0300000000000000 763221 0000000000000000"));
  CHECK(c.ask(multi_set, {"/a", "1", "/b", "2"}).empty());
  CHECK(c.ask(multi_get, {}).empty());
  CHECK(c.ask(cancel_wait) == hex("01"));
  CHECK(c.ask(ping, {}, 0xF0010203) == hex("030201F0"));
  CHECK(c.ask(queue_push, {"/q", "x"}).empty());
  CHECK(c.ask(queue_len, {"/q"}) == hex("0100000000000000"));
  CHECK(c.ask(queue_pop, {"/q"}) == hex("0100000000000000 0100000000000000 78"));
  CHECK(c.ask(queue_pop, {"/q"}) == hex("0000000000000000"));
  CHECK(c.ask(barrier, {"/x"}, 1) == hex("00"));
  for (const char* key : {"/a", "/b", "/x"})
    c.ask(delete_key, {key});
  CHECK(c.ask(list_keys) == hex("0100000000000000 0200000000000000 2F6B"));
}

TEST_CASE("a waiter is answered once, after the request that ends its wait") {
  key_value_store values;
  client waiter(values);
  client setter(values);
  CHECK(waiter.ask(wait, {"/a", "/b"}).empty());
  setter.ask(set, {"/b", ""});
  CHECK_FALSE(waiter.woken());
  setter.ask(set, {"/a", ""});
  CHECK(waiter.woken());
  CHECK_FALSE(waiter.woken());
  waiter.talk.on_woken(waiter.pending);
  CHECK(take(waiter.pending) == hex("00"));
  // The CANCEL_WAIT that crossed the reply gets a reply, too, and nothing follows it.
  CHECK(waiter.ask(cancel_wait) == hex("01"));
  CHECK(waiter.ask(wait, {"/c"}).empty());
  CHECK(waiter.ask(cancel_wait) == hex("01"));
  setter.ask(set, {"/c", ""});
  CHECK_FALSE(waiter.woken());
}

TEST_CASE("a client that ends its own wait is answered in the order of its requests") {
  key_value_store values;
  client c(values);
  std::string bytes;
  wire::append_request(bytes, wait, {"/k"});
  wire::append_request(bytes, set, {"/k", "v"});
  wire::append_request(bytes, get, {"/k"});
  CHECK(c.say(bytes) == hex("00 0100000000000000 76"));
}

TEST_CASE("requests that arrive byte by byte are answered as in one piece") {
  std::string all = validate_bytes;
  for (const auto& golden : golden_requests()) {
    if (golden.code != validate) all += hex(golden.bytes);
  }
  key_value_store at_once_values;
  key_value_store in_bytes_values;
  store_protocol at_once(at_once_values);
  store_protocol in_bytes(in_bytes_values);
  replies pending;
  REQUIRE(*at_once.on_bytes(all, pending) == all.size());
  const std::string expected = take(pending);
  std::string unused;
  std::string answered;
  for (const char c : all) {
    unused.push_back(c);
    const auto used = in_bytes.on_bytes(unused, pending);
    REQUIRE(used);
    unused.erase(0, *used);
    answered += take(pending);
  }
  CHECK(unused.empty());
  CHECK(answered == expected);
}

TEST_CASE("a request is applied with its last byte, and one that is cut off not at all") {
  for (const auto& golden : golden_requests()) {
    if (golden.code == validate) continue;
    const std::string bytes = hex(golden.bytes);
    key_value_store whole_values;
    client whole(whole_values);
    const std::string expected = whole.say(bytes);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
      INFO(golden.name << " cut at " << cut);
      key_value_store values;
      {
        client other(values);
        CHECK(other.say(bytes.substr(0, cut)).empty());
        CHECK(values.bytes_used() == 0);
      }
      CHECK(values.bytes_used() == 0);
      client c(values);
      CHECK(c.say(bytes.substr(0, cut)).empty());
      CHECK(c.say(bytes.substr(cut)) == expected);
      CHECK(values.bytes_used() == whole_values.bytes_used());
      CHECK(values.size() == whole_values.size());
    }
  }
}

TEST_CASE("nothing more is taken while many replies wait to be sent") {
  key_value_store values;
  client c(values);
  c.ask(set, {"/k", std::string(wire::value_bytes_max, 'x')});
  std::string one;
  wire::append_request(one, get, {"/k"});
  const std::string two = one + one;
  CHECK(*c.talk.on_bytes(two, c.pending) == one.size());
  CHECK(*c.talk.on_bytes(one, c.pending) == 0);
  take(c.pending);
  CHECK(*c.talk.on_bytes(one, c.pending) == one.size());
}

TEST_CASE("a request that cannot be applied ends the store_protocol and changes nothing") {
  key_value_store values;
  client c(values);
  c.ask(set, {"/text", "x"});
  std::string bytes;
  wire::append_request(bytes, add, {"/text"}, 1);
  CHECK(c.talk.on_bytes(bytes, c.pending).error() == errc::invalid_argument);
  CHECK(*values.get("/text") == "x");
}

TEST_CASE("a client that goes drops its waits and nothing else") {
  key_value_store values;
  {
    client c(values);
    c.ask(set, {"/k", ""});
    c.ask(wait, {"/a", "/b"});
    CHECK(values.keys_used() == 3);
  }
  CHECK(values.keys_used() == 1);
}
