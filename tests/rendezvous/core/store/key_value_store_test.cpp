#include "tests/rendezvous/core/store/key_values.hpp"

#include <limits>
#include <string>

using namespace ddprun::tests;
using ddprun::errc;

TEST_CASE("a value is what was set last, and a reader's copy stays") {
  key_value_store store;
  CHECK(store.get("k") == nullptr);
  REQUIRE_FALSE(store.set("k", "one"));
  auto read = store.get("k");
  REQUIRE_FALSE(store.set("k", "two"));
  REQUIRE_FALSE(store.append("k", "!"));
  CHECK(text(read) == "one");
  read.reset();
  CHECK(text(store.get("k")) == "two!");
  REQUIRE_FALSE(store.append("new", "made"));
  CHECK(text(store.get("new")) == "made");
  CHECK(store.size() == 2);
  CHECK(store.erase("k") == 1);
  CHECK(store.erase("k") == 0);
  CHECK(store.erase("new") == 1);
  check_empty(store);
}

TEST_CASE("keys and values are any bytes, the empty ones too") {
  key_value_store store;
  const std::string key("\0\xff", 2);
  REQUIRE_FALSE(store.set(key, std::string_view("\0", 1)));
  REQUIRE_FALSE(store.set("", ""));
  CHECK(text(store.get(key)) == std::string(1, '\0'));
  REQUIRE(store.get("") != nullptr);
  CHECK(store.get("")->empty());
  CHECK(store.exists(""));
}

TEST_CASE("compare_set has four cases") {
  key_value_store store;
  CHECK(text(*store.compare_set("k", "wrong", "new")) == "wrong");  // missing, something expected
  CHECK_FALSE(store.exists("k"));
  CHECK(text(*store.compare_set("k", "", "first")) == "first");     // missing, nothing expected
  CHECK(text(*store.compare_set("k", "other", "new")) == "first");  // differs
  CHECK(text(*store.compare_set("k", "", "new")) == "first");
  CHECK(text(*store.compare_set("k", "first", "second")) == "second");  // equal
  CHECK(text(store.get("k")) == "second");
  REQUIRE_FALSE(store.set("empty", ""));
  CHECK(text(*store.compare_set("empty", "", "filled")) == "filled");  // equal, though empty
}

TEST_CASE("add keeps decimal text") {
  key_value_store store;
  CHECK(*store.add("n", 5) == 5);
  CHECK(*store.add("n", -7) == -2);
  CHECK(text(store.get("n")) == "-2");
  REQUIRE_FALSE(store.set("n", "12abc"));
  CHECK(*store.add("n", 1) == 13);
  REQUIRE_FALSE(store.set("n", " \t+41 "));
  CHECK(*store.add("n", 1) == 42);
  for (const char* bad : {"", "abc", "+-1", "+", "-", "9223372036854775808", "  "}) {
    REQUIRE_FALSE(store.set("bad", bad));
    CHECK(store.add("bad", 1).error() == errc::invalid_argument);
    CHECK(text(store.get("bad")) == bad);
  }
  const auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(*store.add("max", most) == most);
  CHECK(store.add("max", 1).error() == errc::invalid_argument);
  CHECK(text(store.get("max")) == "9223372036854775807");
  CHECK(*store.add("min", std::numeric_limits<std::int64_t>::min()) ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(text(store.get("min")) == "-9223372036854775808");
}

TEST_CASE("queues stand beside the values") {
  key_value_store store;
  const auto client = store.attach();
  std::int64_t length = -1;
  CHECK(store.queue_pop("q", client, length) == nullptr);
  CHECK(length == 0);
  REQUIRE_FALSE(store.queue_push("q", "1"));
  REQUIRE_FALSE(store.queue_push("q", ""));
  CHECK(store.exists("q"));
  CHECK(store.get("q") == nullptr);
  CHECK(store.size() == 0);
  CHECK(store.erase("q") == 0);
  CHECK(store.queue_length("q") == 2);
  CHECK(text(store.queue_pop("q", client, length)) == "1");
  CHECK(length == 2);
  CHECK(text(store.queue_pop("q", client, length)).empty());
  CHECK(length == 1);
  CHECK_FALSE(store.exists("q"));
  check_empty(store);
}

TEST_CASE("what would pass a limit fails and changes nothing") {
  store_limits limits;
  limits.keys_max = 3;
  limits.bytes_max = 2000;
  limits.value_bytes_max = 1000;
  key_value_store store(limits);
  const auto client = store.attach();
  const std::string large(900, 'x');
  REQUIRE_FALSE(store.set("a", large));
  REQUIRE_FALSE(store.set("b", "1"));
  const std::size_t used = store.bytes_used();
  CHECK(store.set("c", large) == errc::limit_reached);     // bytes
  CHECK(store.append("a", large) == errc::limit_reached);  // one value
  CHECK(store.set("b", std::string(1001, 'x')) == errc::limit_reached);
  CHECK(store.queue_push("q", large) == errc::limit_reached);
  CHECK(store.compare_set("c", "", large).error() == errc::limit_reached);
  CHECK(wait(store, client, {"w1", "w2", "w3"}).error() == errc::limit_reached);  // keys
  CHECK_FALSE(store.waits(client));
  CHECK(store.bytes_used() == used);
  CHECK(store.keys_used() == 2);
  REQUIRE_FALSE(store.set("c", ""));
  CHECK(store.set("d", "") == errc::limit_reached);
  CHECK(text(store.get("b")) == "1");
  REQUIRE_FALSE(store.set("a", ""));
  CHECK(store.bytes_used() < used);
}

TEST_CASE("a value counts until its last holder lets go") {
  store_limits limits;
  limits.bytes_max = 3500;
  key_value_store store(limits);
  const std::string large(900, 'x');
  REQUIRE_FALSE(store.set("k", large));
  const std::size_t with_one = store.bytes_used();
  auto first = store.get("k");
  REQUIRE_FALSE(store.set("k", large));
  auto second = store.get("k");
  CHECK(store.bytes_used() == with_one + ddprun::core::store_value_bytes(large.size()));
  REQUIRE_FALSE(store.append("k", "y"));
  CHECK(store.bytes_used() == with_one + 2 * ddprun::core::store_value_bytes(large.size()) + 1);
  auto third = store.get("k");
  CHECK(store.set("k", large) == errc::limit_reached);
  CHECK(text(store.get("k")) == large + "y");
  SECTION("by itself") {
    second.reset();
  }
  SECTION("when asked to, for as long as that makes room") {
    store.on_shortage([&] {
      const bool held = second != nullptr || first != nullptr;
      (second != nullptr ? second : first).reset();
      return held;
    });
  }
  CHECK_FALSE(store.set("k", large));
  CHECK(first != nullptr);
  CHECK(text(third) == large + "y");
  third.reset();
  first.reset();
  CHECK(store.bytes_used() == with_one);
  CHECK(store.erase("k") == 1);
  check_empty(store);
}

TEST_CASE("no reader is asked to let go of values that keys still have") {
  store_limits limits;
  limits.bytes_max = 2000;
  key_value_store store(limits);
  store.on_shortage([]() -> bool { throw std::logic_error("asked in vain"); });
  REQUIRE_FALSE(store.set("a", std::string(900, 'x')));
  const auto reader = store.get("a");
  CHECK(store.set("b", std::string(900, 'x')) == errc::limit_reached);
}
