// Tests the store client against ddprun's own store, over loopback.
#include "worker/store_client.hpp"

#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/catch.hpp"
#include "tests/worker/client_of.hpp"

#include <algorithm>
#include <csignal>
#include <future>
#include <sys/time.h>

using namespace std::chrono_literals;
using ddprun::errc;
using ddprun::error_code;
using ddprun::tests::client_of;
using ddprun::tests::loopback_client;
using ddprun::tests::patience;
using ddprun::tests::served_store;
using ddprun::worker::deadline;
using ddprun::worker::environment;
using ddprun::worker::store_client;
using strings = std::vector<std::string>;

namespace {

// Waits until `count` waits are registered, on keys that do not exist.
bool waits_are(served_store& store, std::size_t count) {
  return store.eventually([&] {
    const auto& values = store.listener().space().values();
    return values.keys_used() == values.size() + count;
  });
}

strings sorted(strings values) {
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

TEST_CASE("a store client has every call of a TCPStore", "[store_client]") {
  served_store server;
  store_client store = client_of(server);
  const deadline soon = patience;
  CHECK_FALSE(store.set("k", "v1", soon));
  CHECK(*store.get("k", soon) == "v1");
  CHECK_FALSE(store.set("empty", "", soon));
  CHECK(*store.get("empty", soon) == "");
  CHECK(*store.add("n", 5, soon) == 5);
  CHECK(*store.add("n", -7, soon) == -2);
  CHECK(*store.get("n", soon) == "-2");
  CHECK_FALSE(store.append("a", "x", soon));
  CHECK_FALSE(store.append("a", "y", soon));
  CHECK(*store.get("a", soon) == "xy");
  CHECK(*store.num_keys(soon) == 4);
  CHECK(sorted(*store.list_keys(soon)) == strings{"a", "empty", "k", "n"});
  CHECK(*store.delete_key("k", soon));
  CHECK_FALSE(*store.delete_key("k", soon));
  CHECK(*store.check(strings{"a", "n"}, soon));
  CHECK_FALSE(*store.check(strings{"a", "k"}, soon));
  CHECK(*store.check(strings{}, soon));
  CHECK_FALSE(store.wait(strings{"a", "n"}, soon));
  CHECK_FALSE(store.wait("a", soon));
  const std::vector<std::pair<std::string, std::string>> pairs{{"m1", "1"}, {"m2", ""}};
  CHECK_FALSE(store.multi_set(pairs, soon));
  CHECK(*store.multi_get(strings{"m2", "m1", "m1"}, soon) == strings{"", "1", "1"});
  CHECK(store.multi_get(strings{}, soon)->empty());
  CHECK(*store.count_in(soon) == 1);
  CHECK(*store.count_in(soon) == 2);
  CHECK_FALSE(*store.check(strings{"init/"}, soon));
  CHECK(store.is_connected());
  CHECK(store.problem() == "");
}

TEST_CASE("a store client compares before it sets", "[store_client]") {
  served_store server;
  store_client store = client_of(server);
  CHECK(*store.compare_set("k", "expected", "new", patience) == "expected");
  CHECK_FALSE(*store.check(strings{"k"}, patience));
  CHECK(*store.compare_set("k", "", "first", patience) == "first");
  CHECK(*store.compare_set("k", "other", "new", patience) == "first");
  CHECK(*store.compare_set("k", "first", "second", patience) == "second");
  CHECK(*store.get("k", patience) == "second");
}

TEST_CASE("a store client has queues", "[store_client]") {
  served_store server;
  store_client store = client_of(server);
  CHECK(*store.queue_len("q", patience) == 0);
  CHECK_FALSE(*store.try_queue_pop("q", patience));
  CHECK_FALSE(store.queue_push("q", "1", patience));
  CHECK_FALSE(store.queue_push("q", "", patience));
  CHECK(*store.queue_len("q", patience) == 2);
  CHECK(*store.queue_pop("q", patience) == "1");
  CHECK(store.try_queue_pop("q", patience)->value() == "");
  CHECK(store.queue_pop("q", 20ms).error() == errc::timed_out);
  // The waiter has given up, so the item is left for the next client.
  store_client other = client_of(server);
  CHECK_FALSE(other.queue_push("q", "late", patience));
  CHECK(*store.queue_pop("q", patience) == "late");
}

TEST_CASE("a wait ends when another client sets the key", "[store_client]") {
  served_store server;
  store_client bringer = client_of(server);
  const auto in_thread = [&](auto work) {
    return std::async(std::launch::async, [&server, work] {
      std::string problem;
      auto client = store_client::connect("127.0.0.1", server.port(), patience, problem);
      return work(*client);
    });
  };
  auto got = in_thread([](store_client store) { return *store.get("value", patience); });
  auto popped = in_thread([](store_client store) { return *store.queue_pop("queue", patience); });
  auto waited = in_thread([](store_client store) {
    return store.wait(strings{"b1", "b2"}, patience);
  });
  REQUIRE(waits_are(server, 4));
  CHECK_FALSE(bringer.set("value", "here", patience));
  CHECK(got.get() == "here");
  CHECK_FALSE(bringer.queue_push("queue", "item", patience));
  CHECK(popped.get() == "item");
  CHECK_FALSE(bringer.set("b1", "", patience));
  CHECK(waited.wait_for(0s) == std::future_status::timeout);
  CHECK_FALSE(bringer.set("b2", "", patience));
  CHECK_FALSE(waited.get());
}

TEST_CASE("a barrier lets all clients through together", "[store_client]") {
  served_store server;
  std::vector<std::future<error_code>> others;
  for (int rank = 1; rank < 8; ++rank) {
    others.push_back(std::async(std::launch::async, [&] {
      std::string problem;
      auto client = store_client::connect("127.0.0.1", server.port(), patience, problem);
      return client->barrier("start", 8, patience);
    }));
  }
  store_client store = client_of(server);
  const deadline soon = patience;
  while (!soon.passed() && *store.get("start", soon) != "7") {
  }
  for (auto& other : others)
    CHECK(other.wait_for(0s) == std::future_status::timeout);
  CHECK_FALSE(store.barrier("start", 8, patience));
  for (auto& other : others)
    CHECK_FALSE(other.get());
  // Where the machine has no time for it, it does not come before the deadline has passed.
  std::chrono::milliseconds limit = 20ms;
  do {
    REQUIRE(store.barrier("alone", 2, limit) == errc::timed_out);
  } while (!*store.check(strings{"alone"}, patience) && (limit *= 2) < patience);
  CHECK(*store.get("alone", patience) == "1");
}

TEST_CASE("a wait that times out names its keys, and the client goes on", "[store_client]") {
  served_store server;
  store_client store = client_of(server, "rank 3 of 4");
  const std::string place = "rank 3 of 4: store at 127.0.0.1:" + std::to_string(server.port());
  for (int round = 0; round < 5; ++round) {
    // Where the machine has no time for the question the deadline passes before it is asked.
    std::chrono::milliseconds limit = 20ms;
    do {
      CHECK(store.wait(strings{"a", "b", "c", "d\n", "e"}, limit) == errc::timed_out);
    } while (store.problem().find("not asked") != std::string::npos && (limit *= 2) < patience);
    CHECK(store.problem().starts_with(place + ": WAIT 'a', 'b', 'c' and 2 more: still waiting "));
    CHECK(store.problem().ends_with(" ms (a peer is gone or late)"));
    CHECK(store.get("d\n", 1ms).error() == errc::timed_out);
    CHECK(*store.add("count", 1, patience) == round + 1);
  }
  CHECK(store.wait("d\n", 1ms) == errc::timed_out);
  CHECK(store.problem().starts_with(place + ": WAIT 'd?': "));
  CHECK(waits_are(server, 0));
  CHECK(store.wait("a", 0s) == errc::timed_out);
  CHECK(store.problem() ==
        place + ": WAIT 'a': not sent: the deadline had passed (a peer is gone or late)");
  CHECK(store.set("a", "", deadline(std::chrono::steady_clock::now() - 1s)) == errc::timed_out);
  CHECK_FALSE(*store.check(strings{"a"}, patience));
}

TEST_CASE("a cancelled wait races with its answer", "[store_client]") {
  served_store server;
  store_client waiter = client_of(server);
  store_client setter = client_of(server);
  int answered = 0;
  for (int round = 0; round < 300; ++round) {
    const std::string key = "race" + std::to_string(round);
    std::promise<void> started;
    auto waited = std::async(std::launch::async, [&] {
      started.set_value();
      return waiter.wait(key, 1ms);
    });
    started.get_future().wait();
    // The answer must come close to the deadline, which no event marks, so spin.
    const deadline moment = 700us + round % 30 * 20us;
    while (!moment.passed()) {
    }
    REQUIRE_FALSE(setter.set(key, "v" + std::to_string(round), patience));
    answered += waited.get() ? 0 : 1;
    REQUIRE(*waiter.get(key, patience) == "v" + std::to_string(round));
    REQUIRE(*waiter.add("count", 1, patience) == round + 1);
  }
  INFO(answered << " of 300 were answered in time");
  CHECK(waiter.is_connected());
}

TEST_CASE("large values go both ways", "[store_client]") {
  served_store server;
  store_client store = client_of(server);
  std::string large(ddprun::protocol::tcpstore::value_bytes_max, '\0');
  for (std::size_t index = 0; index < large.size(); ++index)
    large[index] = static_cast<char>(index * 7 + index / 251);
  REQUIRE_FALSE(store.set("large", large, patience));
  CHECK((*store.get("large", patience) == large));
  REQUIRE_FALSE(store.append("large", large, patience));
  const auto both = store.multi_get(strings{"large", "large"}, patience);
  REQUIRE(both.has_value());
  CHECK(((*both)[0] == large + large));
  CHECK(((*both)[1] == large + large));
}

TEST_CASE("a request that exceeds a limit is not sent", "[store_client]") {
  namespace wire = ddprun::protocol::tcpstore;
  served_store server;
  store_client store = client_of(server);
  const std::string long_key(wire::key_bytes_max, 'k');  // too long with the slash in front
  CHECK(store.set(long_key, "", patience) == errc::message_too_long);
  CHECK(store.problem().ends_with(": a key of 8193 bytes, at most 8192 are allowed"));
  CHECK(store.problem().size() < 300);
  CHECK_FALSE(store.set(long_key.substr(1), "", patience));
  const std::string long_value(wire::value_bytes_max + 1, 'v');
  CHECK(store.queue_push("q", long_value, patience) == errc::message_too_long);
  CHECK(store.compare_set("q", "", long_value, patience).error() == errc::message_too_long);
  CHECK(store.check(strings(wire::keys_per_request_max + 1, "k"), patience).error() ==
        errc::message_too_long);
  const std::pair<std::string, std::string> pair{"k", long_value.substr(1)};
  CHECK(store.multi_set(std::vector(9, pair), patience) == errc::message_too_long);
  CHECK(*store.num_keys(patience) == 1);
}

TEST_CASE("a prefix is PyTorch's, and views share the connection", "[store_client]") {
  served_store server;
  store_client store = client_of(server);
  store_client one = store.with_prefix("one");
  store_client two = one.with_prefix("two");
  REQUIRE_FALSE(store.set("k", "0", patience));
  REQUIRE_FALSE(one.set("k", "1", patience));
  REQUIRE_FALSE(two.set("k", "2", patience));
  REQUIRE_FALSE(store.set("another/long/key", "", patience));
  CHECK(*store.multi_get(strings{"k", "one/k", "one/two/k"}, patience) == strings{"0", "1", "2"});
  CHECK(*two.list_keys(patience) == strings{"k"});
  CHECK(sorted(*one.list_keys(patience)) == strings{"k", "two/k"});
  CHECK(*one.num_keys(patience) == 4);
  CHECK(server.sessions() == 1);
  loopback_client raw(server.port());
  raw.ask(ddprun::protocol::tcpstore::opcode::get, {"/one/two/k"});
  CHECK(raw.hear_string() == "2");
}

TEST_CASE("a write that the store refuses is an error", "[store_client]") {
  ddprun::store::keyspace_options options;
  options.limits.bytes_max = 64 * 1024;
  served_store server(options);
  store_client store = client_of(server);
  CHECK_FALSE(store.set("text", "abc", patience));
  CHECK(store.set("large", std::string(100'000, 'x'), patience) == errc::connection_closed);
  CHECK(store.problem().find("SET 'large': the store closed the connection") != std::string::npos);
  CHECK_FALSE(store.is_connected());
  CHECK(store.get("text", patience).error() == errc::connection_closed);
  CHECK(store.problem().find("GET 'text'") == std::string::npos);  // its WAIT failed, not GET
  CHECK(store.problem().find("the connection was closed: the store closed") != std::string::npos);
  store = client_of(server);
  CHECK(store.add("text", 1, patience).error() == errc::connection_closed);
}

TEST_CASE("a store client finds the store by its environment", "[store_client]") {
  served_store server;
  environment here;
  here.rank = 2;
  here.world_size = 5;
  here.master_address = "localhost";
  here.master_port = server.port();
  here.agent_store = true;
  std::string problem;
  auto store = store_client::from_environment(here, patience, problem);
  INFO(problem);
  REQUIRE(store.has_value());
  const std::string place = "rank 2 of 5: store at localhost:" + std::to_string(server.port());
  CHECK(store->wait("k", 1ms) == errc::timed_out);
  CHECK(store->problem().starts_with(place + ": WAIT 'k'"));
  here.agent_store = false;
  here.master_address = "127.0.0.1";
  here.master_port = 1;
  // Where the machine has no time for it nothing is tried by the deadline.
  std::chrono::milliseconds limit = 60ms;
  do {
    CHECK(store_client::from_environment(here, limit, problem).error() == errc::timed_out);
  } while (problem.find("Connection refused") == std::string::npos && (limit *= 2) < patience);
  CHECK(problem.starts_with("rank 2 of 5: store at 127.0.0.1:1: not reached within "));
  CHECK(problem.find("Connection refused") != std::string::npos);
  CHECK(problem.find("USE_AGENT_STORE is not True") != std::string::npos);
}

TEST_CASE("signals interrupt no call", "[store_client]") {
  served_store server;
  store_client store = client_of(server);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  REQUIRE(sigaction(SIGALRM, &action, &before) == 0);
  const itimerval often{{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const error_code waited = store.wait("never", 50ms);
  const auto sum = store.add("n", 1, patience);
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  CHECK(waited == errc::timed_out);
  CHECK(*sum == 1);
}

TEST_CASE("a deadline is bounded, and can be a time or a span", "[store_client]") {
  CHECK(deadline(-1s).passed());
  CHECK(deadline(0s).passed());
  CHECK_FALSE(deadline(1h).passed());
  CHECK(deadline(std::chrono::hours::max()).left() <= deadline::longest);
  CHECK(deadline(std::chrono::hours::max()).left() > deadline::longest - 1h);
  CHECK(deadline(std::chrono::duration<double>(1e300)).left() > deadline::longest - 1h);
  const auto moment = std::chrono::steady_clock::now() + 1h;
  CHECK(deadline(moment).at() == moment);
}
