#include "tests/rendezvous/core/store/key_values.hpp"

#include <malloc.h>
#include <string>
#include <vector>

using namespace ddprun::tests;
using ddprun::errc;

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

TEST_CASE("waits that come and go leave nothing behind where others go on waiting") {
  key_value_store store;
  const ids two{store.attach(), store.attach()};
  const auto in_use = [] { return ::mallinfo2().uordblks; };  // 0 with a sanitizer
  constexpr std::size_t rounds = 50'000;
  std::int64_t length = 0;
  CHECK(*wait(store, two[0], {"q"}) == wait_outcome::waiting);
  const std::size_t before = in_use();
  SECTION("whose turn it was") {
    for (std::size_t round = 0; round < rounds; ++round) {
      REQUIRE(*wait(store, two[(round + 1) % 2], {"q"}) == wait_outcome::waiting);
      REQUIRE_FALSE(store.queue_push("q", "x"));
      REQUIRE(take_woken(store) == ids{two[round % 2]});
      REQUIRE(store.queue_pop("q", two[round % 2], length));
    }
  }
  SECTION("a client that gave up") {
    for (std::size_t round = 0; round < rounds; ++round) {
      REQUIRE(*wait(store, two[1], {"q"}) == wait_outcome::waiting);
      store.cancel_wait(two[1]);
    }
  }
  CHECK(in_use() < before + rounds);
}

TEST_CASE("many wait for many keys, and half of them give up") {
  constexpr std::size_t count = 200;
  key_value_store store;
  std::vector<std::string> keys;
  ids clients;
  for (std::size_t index = 0; index < count; ++index) {
    keys.push_back("key " + std::to_string(index));
    clients.push_back(store.attach());
  }
  const std::vector<std::string_view> all(keys.begin(), keys.end());
  for (const auto client : clients)
    REQUIRE(*wait(store, client, all) == wait_outcome::waiting);
  ids left;
  for (const auto client : clients) {
    if (client % 2 == 0) {
      store.detach(client);
      REQUIRE(store.attach() == client);  // a new client with that id waits for one
      REQUIRE(*wait(store, client, {all.front()}) == wait_outcome::waiting);
    } else {
      left.push_back(client);
    }
  }
  REQUIRE_FALSE(store.set(all.front(), ""));
  CHECK(take_woken(store).size() == count / 2);
  for (std::size_t index = 1; index < count; ++index) {
    CHECK(take_woken(store).empty());
    REQUIRE_FALSE(store.set(all[index], ""));
  }
  CHECK(take_woken(store) == left);
  for (const std::string_view key : all)
    CHECK(store.erase(key) == 1);
  check_empty(store);
}

TEST_CASE("a barrier that cannot register its caller has not counted it") {
  store_limits limits;
  limits.bytes_max = ddprun::core::store_key_bytes(1) + ddprun::core::store_value_bytes(1) +
                     ddprun::core::store_list_overhead_bytes +
                     ddprun::core::store_wait_overhead_bytes - 1;
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
