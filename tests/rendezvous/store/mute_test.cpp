// Connections that have sent nothing make room for others; those that have used the store do not.
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/tcpstore_goldens.hpp"

#include <memory>
#include <vector>

using ddprun::time_point;
using ddprun::tests::hex;
using ddprun::tests::loopback_client;
using ddprun::tests::served_store;
using enum ddprun::protocol::tcpstore::opcode;

namespace {

ddprun::store::keyspace& space_of(served_store& store) {
  return store.listener().space();
}

void await_mute(served_store& store, std::size_t count) {
  REQUIRE(store.eventually([&] { return space_of(store).mute_count() == count; }));
}

}  // namespace

TEST_CASE("one that validates and pings is mute, one that has asked for something is not") {
  served_store store;
  CHECK(space_of(store).oldest_mute() == time_point::max());
  loopback_client one(store.port());
  await_mute(store, 1);
  const time_point since = space_of(store).oldest_mute();
  CHECK(since <= std::chrono::steady_clock::now());
  one.ask(ping, {}, 7);
  CHECK(one.hear(4) == hex("07000000"));
  await_mute(store, 1);
  loopback_client two(store.port());
  await_mute(store, 2);
  CHECK(space_of(store).oldest_mute() == since);
  one.ask(wait, {"/k"});
  await_mute(store, 1);
  CHECK(space_of(store).oldest_mute() > since);
  two.ask(set, {"/k", "value"});
  CHECK(one.hear(1) == hex("00"));
  await_mute(store, 0);
  CHECK(space_of(store).oldest_mute() == time_point::max());
  CHECK(space_of(store).connection_count() == 2);
}

TEST_CASE("one that leaves without a word is not counted any more") {
  served_store store;
  std::make_unique<loopback_client>(store.port()).reset();
  REQUIRE(store.eventually([&] { return space_of(store).connection_count() == 0; }));
  CHECK(space_of(store).mute_count() == 0);
}

TEST_CASE("of those that are mute the oldest go, as many as are too many") {
  served_store store;
  loopback_client user(store.port());
  user.ask(set, {"/k", "value"});
  std::vector<std::unique_ptr<loopback_client>> mute;
  for (std::size_t index = 0; index < 6; ++index) {
    mute.push_back(std::make_unique<loopback_client>(store.port(), index % 2 == 0));
    REQUIRE(store.eventually([&] { return space_of(store).connection_count() == index + 2; }));
  }
  await_mute(store, 6);
  const auto cut = [&](std::size_t mute_max, std::size_t connections_max) {
    store.on_thread([&] {
      space_of(store).cut_mute(mute_max, connections_max);
      return true;
    });
  };
  cut(4, 100);
  CHECK(mute[0]->is_closed());
  CHECK(mute[1]->is_closed());
  CHECK(space_of(store).mute_count() == 4);
  cut(100, 4);
  CHECK(mute[2]->is_closed());
  CHECK(space_of(store).connection_count() == 4);
  cut(100, 0);  // all that may go
  CHECK(mute[5]->is_closed());
  CHECK(space_of(store).connection_count() == 1);
  user.ask(get, {"/k"});
  CHECK(user.hear_string() == "value");
}

// A client that is closed and connects again at once must not be counted twice.
TEST_CASE("one that sees the end of its connection is not counted any more") {
  served_store store;
  for (int turn = 0; turn < 1000; ++turn) {
    loopback_client one(store.port());
    await_mute(store, 1);
    store.loop().post([&] { space_of(store).cut_mute(0, 0); });
    REQUIRE(one.is_closed());
    REQUIRE(space_of(store).mute_count() == 0);
    REQUIRE(space_of(store).connection_count() == 0);
  }
}
