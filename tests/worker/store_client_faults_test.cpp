// Tests the store client against servers that stall, close, lie and send garbage, at every stage.
#include "tests/support/catch.hpp"
#include "tests/support/fake_store.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/tcpstore_goldens.hpp"
#include "tests/worker/client_of.hpp"
#include "worker/store_client.hpp"
#include "worker/store_connection.hpp"

#include <atomic>
#include <functional>
#include <future>

using namespace std::chrono_literals;
using ddprun::errc;
using ddprun::error_code;
using ddprun::tests::client_of;
using ddprun::tests::fake_store;
using ddprun::tests::hex;
using ddprun::tests::patience;
using ddprun::worker::deadline;
using ddprun::worker::store_client;
using ddprun::worker::store_connection;
using strings = std::vector<std::string>;
using peer = fake_store::peer;

namespace {

constexpr auto moment = 30ms;  // for what never comes

struct attempt {
  error_code error;
  std::string problem;
};

attempt connect(std::uint16_t port, const deadline& until) {
  attempt made;
  const auto client = store_client::connect("127.0.0.1", port, until, made.problem, "rank 1 of 2");
  if (!client) made.error = client.error();
  return made;
}

// With as long a deadline as it takes to come so far: on a machine that has no time for a try, or
// for the last of many, it is cut off before.
attempt connect_until_said(std::uint16_t port, std::chrono::milliseconds limit,
                           std::string_view words) {
  for (;; limit *= 2) {
    attempt made = connect(port, limit);
    INFO(made.problem);
    if (made.problem.find(words) != std::string::npos) return made;
    REQUIRE(limit < patience);
  }
}

// What `ask` answers whose deadline passes only once the store was asked: likewise.
template <typename Ask>
error_code answer_to_asked(store_client& store, Ask ask) {
  for (std::chrono::milliseconds limit = moment;; limit *= 2) {
    const error_code error = ask(limit);
    if (store.problem().find("not sent: the deadline had passed") == std::string::npos)
      return error;
    REQUIRE(limit < patience);
  }
}

// Every call that sends a single request, with the size of that request for the key "k".
struct call {
  const char* name;
  std::size_t request_bytes;
  std::function<error_code(store_client&, const deadline&)> make;
};

template <typename T>
error_code code_of(const ddprun::result<T>& answer) {
  return answer.has_value() ? error_code() : answer.error();
}

const std::vector<call>& calls() {
  using client = store_client&;
  using until = const deadline&;
  static const strings keys{"k"};
  static const std::vector<std::pair<std::string, std::string>> pairs{{"k", "v"}};
  static const std::vector<call> all{
      {"SET", 25, [](client c, until d) { return c.set("k", "v", d); }},
      {"APPEND", 25, [](client c, until d) { return c.append("k", "v", d); }},
      {"MULTI_SET", 33, [](client c, until d) { return c.multi_set(pairs, d); }},
      {"ADD", 19, [](client c, until d) { return code_of(c.add("k", 1, d)); }},
      {"COMPARE_SET", 28,
       [](client c, until d) { return code_of(c.compare_set("k", "", "v", d)); }},
      {"CHECK", 19, [](client c, until d) { return code_of(c.check(keys, d)); }},
      {"DELETE", 11, [](client c, until d) { return code_of(c.delete_key("k", d)); }},
      {"GETNUMKEYS", 1, [](client c, until d) { return code_of(c.num_keys(d)); }},
      {"LIST_KEYS", 1, [](client c, until d) { return code_of(c.list_keys(d)); }},
      {"QUEUE_PUSH", 25, [](client c, until d) { return c.queue_push("k", "v", d); }},
      {"QUEUE_POP", 11, [](client c, until d) { return code_of(c.try_queue_pop("k", d)); }},
      {"QUEUE_LEN", 11, [](client c, until d) { return code_of(c.queue_len("k", d)); }},
      {"WAIT", 19, [](client c, until d) { return c.wait("k", d); }},
      {"BARRIER", 19, [](client c, until d) { return c.barrier("k", 2, d); }},
  };
  return all;
}

bool waits(const call& each) {
  return each.name == std::string("WAIT") || each.name == std::string("BARRIER");
}

}  // namespace

TEST_CASE("a store client writes its golden bytes", "[store_client]") {
  std::promise<std::string> told;
  fake_store server([&](peer& client) {
    if (!client.greet()) return;
    std::string all = client.heard;
    if (!client.hear(25)) return;
    told.set_value(all + client.heard);
    client.say(client.heard.substr(21));
  });
  store_client store = client_of(server);
  CHECK_FALSE(store.set("k", "v", patience));
  std::string heard = told.get_future().get();
  // A PING has a number of its own, and so has the PING behind the SET.
  const std::string first = heard.substr(6, 4);
  const std::string second = heard.substr(31, 4);
  CHECK(first != second);
  CHECK(heard == hex("00 CEF7853C 0D") + first +
                     hex("01 0200000000000000 2F6B 0100000000000000 76 0D") + second);
}

TEST_CASE("connecting waits for a store that starts later", "[store_client]") {
  std::atomic<int> turned_away = 3;
  fake_store server([&](peer& client) {
    if (turned_away-- > 0) return;
    if (client.greet()) client.stay();
  });
  CHECK_FALSE(connect(server.port(), patience).error);
  CHECK(server.connections() == 4);
}

TEST_CASE("connecting ends at its deadline and says what was tried", "[store_client]") {
  attempt made;
  const char* const closed = "connected, but the store closed the connection";
  SECTION("no server listens") {
    boost::asio::io_context io;
    ddprun::tests::tcp::socket bound(io);
    bound.open(ddprun::tests::tcp::v4());
    bound.bind(ddprun::tests::loopback(0));
    const std::uint16_t port = bound.local_endpoint().port();
    const std::string said = " tries): 127.0.0.1:" + std::to_string(port) + ": Connection refused";
    made = connect_until_said(port, 200ms, said);
    CHECK(made.problem.ends_with(said + " (a peer is gone or late)"));
  }
  SECTION("it listens and is silent") {
    fake_store server([](peer& client) { client.stay(); });
    made = connect_until_said(server.port(), moment, "(1 try): connected, but no answer within ");
    CHECK(made.problem.ends_with(", to PING (a peer is gone or late)"));
  }
  SECTION("half of an answer comes") {
    fake_store server([](peer& client) {
      if (client.hear(10) && client.say(client.heard.substr(6, 3))) client.stay();
    });
    made = connect_until_said(server.port(), moment, "connected, but no answer within ");
  }
  SECTION("it closes each time") {
    fake_store server([](peer& client) { client.hear(10); });
    made = connect_until_said(server.port(), 200ms, closed);
    CHECK(server.connections() > 1);
  }
  SECTION("it resets each time") {
    fake_store server([](peer& client) {
      client.hear(10);
      client.reset_at_the_end();
    });
    made = connect_until_said(server.port(), 200ms, closed);
  }
  SECTION("the deadline has passed") {
    made = connect(1, 0s);
    CHECK(made.problem.ends_with(
        "(0 tries): the deadline had passed before the first try (a peer is gone or late)"));
  }
  CHECK(made.error == errc::timed_out);
  CHECK(made.problem.starts_with("rank 1 of 2: store at 127.0.0.1:"));
  CHECK(made.problem.find(": not reached within ") != std::string::npos);
  CHECK(made.problem.find('\n') == std::string::npos);
}

TEST_CASE("a peer that is not a TCPStore is detected at once", "[store_client]") {
  const std::string answer =
      GENERATE(as<std::string>{}, "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 400 Bad Request\r\n",
               std::string(4, '\0'), "right, and more");
  fake_store server([&](peer& client) {
    if (!client.hear(10)) return;
    client.say(answer == "right, and more" ? client.heard.substr(6) + "!" : answer);
    client.stay();
  });
  const attempt made = connect(server.port(), patience);
  CHECK(made.error == errc::wrong_protocol);
  CHECK(made.problem.ends_with(": what listens there is not a TCPStore"));
  CHECK(server.connections() == 1);
}

TEST_CASE("a silent store ends each call at its deadline", "[store_client]") {
  fake_store server([](peer& client) {
    if (client.greet()) client.stay();
  });
  for (const call& each : calls()) {
    INFO(each.name);
    store_client store = client_of(server);
    const auto make = [&](const deadline& until) { return each.make(store, until); };
    CHECK(answer_to_asked(store, make) == errc::timed_out);
    INFO(store.problem());
    const std::string said = ": " + std::string(each.name);
    REQUIRE(store.problem().find(said) != std::string::npos);
    if (waits(each)) {
      CHECK(store.problem().find("still waiting after ") != std::string::npos);
      CHECK(store.is_connected());
      // Nothing can be asked before the store has confirmed the cancellation.
      CHECK(answer_to_asked(store, make) == errc::timed_out);
      CHECK(store.problem().find("not sent: the store has not answered the end of the last wait") !=
            std::string::npos);
      continue;
    }
    CHECK(store.problem().find("no answer within ") != std::string::npos);
    CHECK_FALSE(store.is_connected());
    CHECK(each.make(store, patience) == errc::timed_out);
    CHECK(store.problem().find("the connection was closed: no answer within ") !=
          std::string::npos);
  }
}

TEST_CASE("a client gives up on a store that never confirms a cancellation", "[store_client]") {
  fake_store server([](peer& client) {
    if (client.greet()) client.stay();
  });
  std::string problem;
  const auto made =
      store_connection::open("127.0.0.1", server.port(), patience, {"", 0ms}, problem);
  REQUIRE(made.has_value());
  const std::string_view key = "/k";
  const store_connection::question wait{ddprun::protocol::tcpstore::opcode::wait,
                                        std::span(&key, 1)};
  CHECK((*made)->ask(wait, moment).error() == errc::timed_out);
  // The store has to be asked for that twice, which takes longer where the machine has no time.
  std::chrono::milliseconds limit = moment;
  while ((*made)->ask(wait, limit).error() == errc::timed_out && limit < patience)
    limit *= 2;
  CHECK((*made)->ask(wait, patience).error() == errc::connection_silent);
  CHECK((*made)->is_over());
}

TEST_CASE("a store that closes ends each call at once", "[store_client]") {
  const bool resets = GENERATE(false, true);
  std::atomic<std::size_t> bytes = 0;
  fake_store server([&](peer& client) {
    if (!client.greet() || !client.hear(bytes)) return;
    if (resets) client.reset_at_the_end();
  });
  for (const call& each : calls()) {
    for (const std::size_t heard : {std::size_t{0}, each.request_bytes}) {
      bytes = heard;
      INFO(each.name << ", after " << heard << " bytes");
      store_client store = client_of(server);
      CHECK(each.make(store, patience) == errc::connection_closed);
      CHECK_FALSE(store.is_connected());
      CHECK(each.make(store, patience) == errc::connection_closed);
      CHECK(store.problem().find("the connection was closed: ") != std::string::npos);
    }
  }
  // A write larger than the buffers in between: the store closes before it, and in the middle of
  // it.
  for (const std::size_t heard : {0, 100}) {
    bytes = heard;
    store_client store = client_of(server);
    CHECK(store.set("k", std::string(8 << 20, 'v'), patience) == errc::connection_closed);
  }
}

TEST_CASE("garbage ends each call", "[store_client]") {
  std::atomic<std::size_t> bytes = 0;
  const std::string answer(300, '\x93');
  fake_store server([&](peer& client) {
    if (client.greet() && client.hear(bytes) && client.say(answer)) client.stay();
  });
  for (const call& each : calls()) {
    bytes = each.request_bytes;
    INFO(each.name);
    store_client store = client_of(server);
    const error_code error = each.make(store, patience);
    CHECK((error == errc::malformed_message || error == errc::message_too_long));
    CHECK(store.problem().find("the answer is not one that a TCPStore gives") != std::string::npos);
    CHECK_FALSE(store.is_connected());
  }
}

TEST_CASE("a store that claims more than it sends is waited for, not believed", "[store_client]") {
  std::promise<void> left;
  fake_store server([&](peer& client) {
    if (!client.greet() || !client.hear(28)) return;
    client.say(hex("0000000400000000"));  // 64 MiB
    client.say("only this");
    client.stay();
    left.set_value();
  });
  store_client store = client_of(server);
  const auto ask = [&](const deadline& until) {
    return store.compare_set("k", "", "v", until).error();
  };
  CHECK(answer_to_asked(store, ask) == errc::timed_out);
  CHECK_FALSE(store.is_connected());
  // The client must have closed the connection, which it cannot use again.
  CHECK(left.get_future().wait_for(patience) == std::future_status::ready);
}

TEST_CASE("a store that trickles does not move the deadline", "[store_client]") {
  fake_store server([](peer& client) {
    if (!client.greet() || !client.hear(28)) return;
    client.say(hex("0000000400000000"));
    while (client.say("x")) {
    }
  });
  store_client store = client_of(server);
  CHECK(store.compare_set("k", "", "v", moment).error() == errc::timed_out);
}

TEST_CASE("a store that never stops talking does not move the deadline", "[store_client]") {
  fake_store server([](peer& client) {
    if (!client.greet() || !client.hear(1)) return;
    std::string keys;
    for (int index = 0; index < 8; ++index)
      keys += hex("0020000000000000") + std::string(8192, 'k');
    client.say(hex("0000400000000000"));  // 2^22 keys
    while (client.say(keys)) {
    }
  });
  store_client store = client_of(server);
  CHECK(store.list_keys(moment).error() == errc::timed_out);
}

TEST_CASE("a store that does not read ends a large write at its deadline", "[store_client]") {
  std::promise<void> over;
  auto ended = over.get_future();
  fake_store server([&](peer& client) {
    if (client.greet()) ended.wait();
  });
  store_client store = client_of(server);
  const std::string large(8 << 20, 'v');
  // On a slow machine nothing may have been sent by the deadline, and the connection stays: try
  // again.
  std::chrono::milliseconds limit = 100ms;
  for (; store.is_connected() && limit < patience; limit *= 2)
    REQUIRE(store.set("k", large, limit) == errc::timed_out);
  CHECK_FALSE(store.is_connected());
  over.set_value();
}

TEST_CASE("an answer that crosses the cancellation is distinguished from the next one",
          "[store_client]") {
  struct part {
    const char* answer;  // to a CHECK, then to WAIT and CANCEL_WAIT
    bool goes_on;
  };
  const part each = GENERATE(part{"01", true}, part{"00 01", true}, part{"00 00", false},
                             part{"02", false}, part{"01 01", false}, part{"00 01 00 00", false});
  fake_store server([&](peer& client) {
    if (!client.greet() || !client.hear(19 + 1)) return;
    if (client.heard.back() != '\x0c') return;
    client.say(hex(each.answer));
    if (!client.hear(19)) return;
    client.say(hex("00"));
    client.stay();
  });
  store_client store = client_of(server);
  const auto ask = [&](const deadline& until) { return store.wait("k", until); };
  REQUIRE(answer_to_asked(store, ask) == errc::timed_out);
  INFO(each.answer);
  const auto there = store.check(strings{"k"}, patience);
  REQUIRE(there.has_value() == each.goes_on);
  CHECK(store.is_connected() == each.goes_on);
  if (each.goes_on) CHECK(*there);
  if (!each.goes_on) CHECK(there.error() == errc::malformed_message);
}

TEST_CASE("an answer in pieces is put together", "[store_client]") {
  fake_store server([](peer& client) {
    if (!client.greet() || !client.hear(11)) return;
    for (const char byte : hex("0200000000000000 0100000000000000 78"))
      client.say({&byte, 1});
    client.stay();
  });
  store_client store = client_of(server);
  CHECK(store.try_queue_pop("k", patience)->value() == "x");
}
