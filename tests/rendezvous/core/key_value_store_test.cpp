#include "rendezvous/core/key_value_store.hpp"

#include "tests/support/catch.hpp"

#include <limits>
#include <string>

using ddprun::errc;
using ddprun::core::key_value_store;
using ddprun::core::store_limits;
using ddprun::core::wait_outcome;

namespace {

using ids = std::vector<key_value_store::client_id>;

ids take_woken(key_value_store& store) {
  return std::exchange(store.woken(), {});
}

std::string text(const ddprun::core::shared_bytes& value) {
  return value ? *value : "(none)";
}

ddprun::result<wait_outcome> wait(key_value_store& store, key_value_store::client_id client,
                                  std::vector<std::string_view> keys) {
  return store.wait(client, keys);
}

// What an empty store uses, to show that nothing is left behind.
void check_empty(const key_value_store& store) {
  CHECK(store.bytes_used() == 0);
  CHECK(store.keys_used() == 0);
  CHECK(store.size() == 0);
}

}  // namespace

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

TEST_CASE("a wait is over when every key that was absent has come") {
  key_value_store store;
  const auto client = store.attach();
  REQUIRE_FALSE(store.set("here", ""));
  CHECK(*wait(store, client, {}) == wait_outcome::over);
  CHECK(*wait(store, client, {"here"}) == wait_outcome::over);
  CHECK(*wait(store, client, {"a", "here", "b", "a"}) == wait_outcome::waiting);
  REQUIRE_FALSE(store.set("a", ""));
  REQUIRE_FALSE(store.set("a", "again"));
  CHECK(store.erase("a") == 1);  // it has been seen
  CHECK(take_woken(store).empty());
  CHECK(*store.add("b", 1) == 1);
  CHECK(take_woken(store) == ids{client});
  CHECK_FALSE(store.waits(client));
}

TEST_CASE("a waiter is woken by whatever makes the key, and by nothing else") {
  key_value_store store;
  const auto client = store.attach();
  const auto waits_for_k = [&] {
    store.erase("k");
    CHECK(*wait(store, client, {"k"}) == wait_outcome::waiting);
    return 0;
  };
  waits_for_k();
  CHECK(text(*store.compare_set("k", "x", "y")) == "x");  // stores nothing
  CHECK(take_woken(store).empty());
  CHECK(text(*store.compare_set("k", "", "y")) == "y");
  CHECK(take_woken(store) == ids{client});
  waits_for_k();
  REQUIRE_FALSE(store.append("k", "y"));
  CHECK(take_woken(store) == ids{client});
  waits_for_k();
  REQUIRE_FALSE(store.queue_push("k", "y"));
  CHECK(take_woken(store) == ids{client});
}

TEST_CASE("a key that only its waiters know is no key") {
  key_value_store store;
  const auto client = store.attach();
  CHECK(*wait(store, client, {"a", "a", "b"}) == wait_outcome::waiting);
  CHECK(store.size() == 0);
  CHECK_FALSE(store.exists("a"));
  CHECK(store.erase("a") == 0);
  int listed = 0;
  store.for_each_key([&](std::string_view) { ++listed; });
  CHECK(listed == 0);
  SECTION("cancelled") {
    store.cancel_wait(client);
  }
  SECTION("replaced by a newer wait") {
    CHECK(*wait(store, client, {"c"}) == wait_outcome::waiting);
    REQUIRE_FALSE(store.set("a", ""));
    REQUIRE_FALSE(store.set("b", ""));
    CHECK(take_woken(store).empty());
    REQUIRE_FALSE(store.set("c", ""));
    CHECK(take_woken(store) == ids{client});
    for (const char* key : {"a", "b", "c"})
      CHECK(store.erase(key) == 1);
  }
  SECTION("disconnected") {
    store.detach(client);
    REQUIRE_FALSE(store.set("a", ""));
    CHECK(take_woken(store).empty());
    CHECK(store.erase("a") == 1);
    CHECK(store.attach() == client);
    CHECK_FALSE(store.waits(client));
  }
  check_empty(store);
}

TEST_CASE("a crowd of waiters is woken in one pass, in the order of arrival") {
  key_value_store store;
  ids crowd;
  for (int index = 0; index < 5000; ++index) {
    crowd.push_back(store.attach());
    CHECK(*wait(store, crowd.back(), {"k"}) == wait_outcome::waiting);
  }
  store.cancel_wait(crowd[17]);
  crowd.erase(crowd.begin() + 17);
  REQUIRE_FALSE(store.set("k", "v"));
  CHECK(take_woken(store) == crowd);
  store.erase("k");
  check_empty(store);
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

TEST_CASE("a push wakes one waiter; what that one does not take is offered to the next") {
  key_value_store store;
  const ids three{store.attach(), store.attach(), store.attach()};
  std::int64_t length = 0;
  for (const auto client : three)
    CHECK(*wait(store, client, {"q"}) == wait_outcome::waiting);
  REQUIRE_FALSE(store.queue_push("q", "x"));
  CHECK(take_woken(store) == ids{three[0]});
  SECTION("taken") {
    CHECK(text(store.queue_pop("q", three[0], length)) == "x");
    store.cancel_wait(three[0]);
    CHECK(take_woken(store).empty());
    REQUIRE_FALSE(store.queue_push("q", "y"));
    CHECK(take_woken(store) == ids{three[1]});
  }
  SECTION("its wait had timed out") {
    store.cancel_wait(three[0]);
    CHECK(take_woken(store) == ids{three[1]});
    store.detach(three[1]);
    CHECK(take_woken(store) == ids{three[2]});
    CHECK(text(store.queue_pop("q", three[2], length)) == "x");
  }
}

TEST_CASE("an item is for the first client that it wakes, and for no other that it finds") {
  key_value_store store;
  const ids two{store.attach(), store.attach()};
  std::int64_t length = 0;
  SECTION("a client that waits for another key too does not keep the item from the next") {
    CHECK(*wait(store, two[0], {"q", "k"}) == wait_outcome::waiting);
    CHECK(*wait(store, two[1], {"q"}) == wait_outcome::waiting);
    REQUIRE_FALSE(store.queue_push("q", "x"));
    CHECK(take_woken(store) == ids{two[1]});
    CHECK(text(store.queue_pop("q", two[1], length)) == "x");
    REQUIRE_FALSE(store.set("k", ""));  // it has seen the queue
    CHECK(take_woken(store) == ids{two[0]});
    CHECK(store.erase("k") == 1);
  }
  SECTION("a wait that names a queue twice is woken once, and cancelled without an echo") {
    CHECK(*wait(store, two[0], {"q", "q", "k"}) == wait_outcome::waiting);
    REQUIRE_FALSE(store.queue_push("q", "x"));
    CHECK(take_woken(store).empty());
    store.cancel_wait(two[0]);
    CHECK(take_woken(store).empty());
    CHECK(*wait(store, two[0], {"r", "r"}) == wait_outcome::waiting);
    REQUIRE_FALSE(store.queue_push("r", "y"));
    CHECK(take_woken(store) == ids{two[0]});
    store.cancel_wait(two[0]);
    CHECK(take_woken(store).empty());
    CHECK(text(store.queue_pop("q", two[1], length)) == "x");
    CHECK(text(store.queue_pop("r", two[1], length)) == "y");
  }
  check_empty(store);
}

TEST_CASE("a barrier that cannot register its caller has not counted it") {
  store_limits limits;
  limits.bytes_max =
      ddprun::core::store_key_overhead_bytes + 2 + ddprun::core::store_item_overhead_bytes - 1;
  key_value_store store(limits);
  const auto client = store.attach();
  CHECK(store.barrier(client, "b", 2).error() == errc::limit_reached);
  CHECK_FALSE(store.waits(client));
  check_empty(store);
}

TEST_CASE("a barrier counts, and lets all go with the last") {
  key_value_store store;
  const ids two{store.attach(), store.attach()};
  CHECK(*store.barrier(two[0], "b", 3) == wait_outcome::waiting);
  CHECK(text(store.get("b")) == "1");
  CHECK(*store.barrier(two[1], "b", 3) == wait_outcome::waiting);
  const auto last = store.attach();
  CHECK(*store.barrier(last, "b", 3) == wait_outcome::over);
  CHECK(take_woken(store) == two);
  CHECK(*store.barrier(two[0], "one", 1) == wait_outcome::over);
  REQUIRE_FALSE(store.set("text", "x"));
  CHECK(store.barrier(two[0], "text", 2).error() == errc::invalid_argument);
  // A cancelled caller stays counted, as in the reference.
  CHECK(*store.barrier(two[0], "c", 2) == wait_outcome::waiting);
  store.cancel_wait(two[0]);
  CHECK(*store.barrier(two[1], "c", 2) == wait_outcome::over);
  CHECK(take_woken(store).empty());
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

TEST_CASE("a value counts until the last who holds it lets go") {
  store_limits limits;
  limits.bytes_max = 3000;
  key_value_store store(limits);
  const std::string large(900, 'x');
  REQUIRE_FALSE(store.set("k", large));
  const std::size_t with_one = store.bytes_used();
  auto first = store.get("k");
  REQUIRE_FALSE(store.set("k", large));
  auto second = store.get("k");
  CHECK(store.bytes_used() == with_one + large.size());
  REQUIRE_FALSE(store.append("k", "y"));
  CHECK(store.bytes_used() == with_one + 2 * large.size() + 1);
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

TEST_CASE("nobody is asked to let go of what the keys themselves have") {
  store_limits limits;
  limits.bytes_max = 2000;
  key_value_store store(limits);
  store.on_shortage([]() -> bool { throw std::logic_error("asked in vain"); });
  REQUIRE_FALSE(store.set("a", std::string(900, 'x')));
  const auto reader = store.get("a");
  CHECK(store.set("b", std::string(900, 'x')) == errc::limit_reached);
}
