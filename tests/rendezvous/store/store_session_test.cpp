#include "rendezvous/store/session.hpp"
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/tcpstore_goldens.hpp"

#include <atomic>
#include <cstring>
#include <memory>

using namespace std::chrono_literals;
using ddprun::errc;
using ddprun::tests::hex;
using ddprun::tests::loopback_client;
using ddprun::tests::served_store;
namespace asio = boost::asio;
namespace wire = ddprun::protocol::tcpstore;
using enum ddprun::protocol::tcpstore::opcode;

TEST_CASE("clients share one keyspace") {
  served_store store;
  loopback_client one(store.port());
  loopback_client two(store.port());
  one.ask(wait, {"/k"});
  two.ask(set, {"/k", "value"});
  CHECK(one.hear(1) == hex("00"));
  one.ask(get, {"/k"});
  CHECK(one.hear_string() == "value");
  CHECK(store.sessions() == 2);
}

TEST_CASE("bytes may come in any pieces") {
  served_store store;
  loopback_client client(store.port(), false);
  const std::string all = hex("00 CEF7853C 0D 39300000 04 0200000000000000 2F6E 0500000000000000");
  for (const char byte : all)
    client.say({&byte, 1});
  CHECK(client.hear(12) == hex("39300000 0500000000000000"));
}

TEST_CASE("large values go both ways, to many readers") {
  served_store store;
  std::string large(wire::value_bytes_max, '\0');
  for (std::size_t index = 0; index < large.size(); ++index) {
    large[index] = static_cast<char>(index * 7 + index / 251);
  }
  loopback_client writer(store.port());
  writer.ask(set, {"/large", large});
  std::vector<std::unique_ptr<loopback_client>> readers;
  for (int index = 0; index < 8; ++index) {
    readers.push_back(std::make_unique<loopback_client>(store.port()));
    readers.back()->ask(wait, {"/large"});
    CHECK(readers.back()->hear(1) == hex("00"));
    readers.back()->ask(get, {"/large"});
    readers.back()->ask(get, {"/large"});
  }
  for (const auto& reader : readers) {
    CHECK((reader->hear_string() == large));
    CHECK((reader->hear_string() == large));
  }
}

TEST_CASE("thousands of requests in one piece are answered in order") {
  served_store store;
  loopback_client client(store.port());
  std::string bytes;
  for (int index = 0; index < 20000; ++index)
    wire::append_request(bytes, add, {"/n"}, 1);
  std::thread writer([&] { client.say(bytes); });
  bool right = true;
  for (std::int64_t index = 1; index <= 20000; ++index) {
    std::string expected;
    wire::append_i64(expected, index);
    right = right && client.hear(8) == expected;
  }
  writer.join();
  CHECK(right);
}

TEST_CASE("a request of very many keys is taken in linear time") {
  served_store store;
  loopback_client client(store.port());
  std::vector<std::string> names;
  for (int index = 0; index < 100'000; ++index)
    names.push_back("/key/" + std::to_string(index));
  std::string request;
  wire::append_request(request, check, std::vector<std::string_view>(names.begin(), names.end()));
  // If the request were moved once for each key, 250 GB would be copied, and no limit here would be
  // long enough.
  client.say(request);
  CHECK(client.hear(1) == hex("01"));
}

TEST_CASE("strangers are closed at their first byte, the silent ones in time") {
  ddprun::store::keyspace_options options;
  options.validate_limit = 50ms;
  served_store store(options);
  loopback_client http(store.port(), false);
  http.say("GET / HTTP/1.1\r\n\r\n");
  CHECK(http.is_closed());
  loopback_client silent(store.port(), false);
  CHECK(silent.is_closed());
  loopback_client half(store.port(), false);
  half.say(hex("00 CEF7"));
  CHECK(half.is_closed());
  CHECK(store.lines().size() == 3);
  // A client that validates in time may be silent for as long as it likes. On a busy machine it may
  // take several attempts to be in time.
  std::unique_ptr<loopback_client> client;
  while (!client) {
    try {
      client = std::make_unique<loopback_client>(store.port());
      client->ask(ping, {}, 1);
      CHECK(client->hear(4) == hex("01000000"));
    } catch (const boost::system::system_error&) {
      client.reset();
    }
  }
  loopback_client later(store.port(), false);
  CHECK(later.is_closed());
  client->ask(ping, {}, 2);
  CHECK(client->hear(4) == hex("02000000"));
}

TEST_CASE("a client that breaks a rule is closed alone") {
  served_store store;
  loopback_client good(store.port());
  for (const char* bytes :
       {"13", "01 0000000000000080", "01 0120000000000000", "05 0000000000000080", "00 CEF7853C"}) {
    loopback_client bad(store.port());
    bad.say(hex(bytes));
    CHECK(bad.is_closed());
  }
  good.ask(get_num_keys);
  CHECK(good.hear(8) == hex("0000000000000000"));
  CHECK(store.lines().size() == 5);
}

TEST_CASE("a client that does not read is cut off, and delays no other") {
  ddprun::store::keyspace_options options;
  options.stall_limit = 2s;  // long enough for a client that does read
  served_store store(options);
  loopback_client lazy(store.port());
  loopback_client other(store.port());
  other.ask(set, {"/large", std::string(wire::value_bytes_max, 'x')});
  other.ask(wait, {"/large"});
  CHECK(other.hear(1) == hex("00"));
  for (int index = 0; index < 4; ++index)
    lazy.ask(get, {"/large"});
  other.ask(ping, {}, 7);
  CHECK(other.hear(4) == hex("07000000"));
  CHECK(store.eventually([&] { return store.listener().space().session_count() == 1; }));
  REQUIRE(store.lines().size() == 1);
  CHECK(store.lines()[0].find("does not read") != std::string::npos);
}

TEST_CASE("a client that pipelines without end is served one buffer at most in each turn") {
  served_store store;
  const std::size_t floods = 3;
  std::vector<std::unique_ptr<loopback_client>> clients;
  for (std::size_t index = 0; index < floods + 2; ++index) {
    clients.push_back(std::make_unique<loopback_client>(store.port()));
    clients.back()->ask(ping, {}, 1);
    REQUIRE(clients.back()->hear(4) == hex("01000000"));
  }
  std::string one;
  wire::append_request(one, add, {"/n"}, 1);
  std::string flood;
  while (flood.size() < 100 * ddprun::store::session::read_buffer_bytes)
    flood += one;
  // All requests have arrived before the store's thread reads again, those of the polite clients
  // last.
  std::promise<void> held;
  std::promise<void> go;
  std::thread holder([&] {
    store.on_thread([&] {
      held.set_value();
      go.get_future().wait();
    });
  });
  held.get_future().wait();
  for (std::size_t index = 0; index < floods; ++index)
    clients[index]->say(flood);
  clients[floods]->ask(add, {"/n"}, 0);
  clients[floods + 1]->ask(add, {"/n"}, 0);
  go.set_value();
  holder.join();
  // Two turns of each flood at most, and no less than one polite request in each of them.
  const auto served_max = static_cast<std::int64_t>(
      2 * floods * (ddprun::store::session::read_buffer_bytes / one.size() + 1));
  for (const std::size_t polite : {floods, floods + 1}) {
    const std::string answer = clients[polite]->hear(8);
    std::int64_t served = 0;
    std::memcpy(&served, answer.data(), sizeof served);
    CHECK(served <= served_max);
  }
  for (std::size_t index = 0; index < floods; ++index)
    clients[index]->hear(flood.size() / one.size() * 8);
}

TEST_CASE("a request cut at any byte is answered as a whole one") {
  served_store store;
  for (const auto& golden : ddprun::tests::golden_requests()) {
    if (golden.code == validate || golden.code == wait || golden.code == barrier) continue;
    const std::string bytes = hex(golden.bytes);
    loopback_client client(store.port());
    std::string asked;
    wire::append_request(asked, ping, {}, 0xD4C3B2A1);  // not like any other answer
    // When the ping has its reply, the first piece has been read, and is in the session's buffer.
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      INFO(golden.name << " cut at " << cut);
      client.say(asked + bytes.substr(0, cut));
      REQUIRE(client.hear(4) == hex("A1B2C3D4"));
      client.say(bytes.substr(cut) + asked);
      std::string answer = client.hear(4);
      while (!answer.ends_with(hex("A1B2C3D4")))
        answer += client.hear(1);
    }
  }
}

TEST_CASE("a client that goes away drops its wait and offers its item on") {
  served_store store;
  auto first = std::make_unique<loopback_client>(store.port());
  loopback_client second(store.port());
  loopback_client pusher(store.port());
  first->ask(wait, {"/q"});
  const auto waiters = [&](std::size_t count) {
    return store.eventually([&, count] {
      return store.listener().space().values().bytes_used() ==
             ddprun::core::store_key_bytes(2) + ddprun::core::store_list_overhead_bytes +
                 count * ddprun::core::store_wait_overhead_bytes;
    });
  };
  REQUIRE(waiters(1));
  second.ask(wait, {"/q"});
  REQUIRE(waiters(2));
  pusher.ask(queue_push, {"/q", "x"});
  CHECK(first->hear(1) == hex("00"));
  first.reset();
  CHECK(second.hear(1) == hex("00"));
  second.ask(queue_pop, {"/q"});
  CHECK(second.hear(8) == hex("0100000000000000"));
  CHECK(second.hear_string() == "x");
}

TEST_CASE("last words and the end that come together are both heard") {
  served_store store;
  loopback_client first(store.port());
  loopback_client second(store.port());
  REQUIRE(store.eventually([&] { return store.listener().space().session_count() == 2; }));
  // The store's thread is held, so it sees neither before both are there.
  store.on_thread([&] {
    first.ask(set, {"/last", "words"});
    first.socket().shutdown(asio::ip::tcp::socket::shutdown_send);
  });
  CHECK(store.eventually([&] { return store.listener().space().session_count() == 1; }));
  second.ask(get, {"/last"});
  CHECK(second.hear_string() == "words");
}

TEST_CASE("urgent bytes are passed over, and what follows them is heard") {
  served_store store;
  loopback_client client(store.port());
  client.ask(ping, {}, 1);
  REQUIRE(client.hear(4) == hex("01000000"));
  // A read stops at them, so everything has to be there before the store reads.
  store.on_thread([&] {
    client.say(hex("0D 0200"));
    client.socket().send(asio::buffer("!", 1), asio::socket_base::message_out_of_band);
    client.say(hex("0000"));
  });
  CHECK(client.hear(4) == hex("02000000"));
}

TEST_CASE("a renewed listener has a fresh keyspace on the same port, and cuts old connections") {
  served_store store;
  loopback_client old(store.port());
  old.ask(set, {"/k", "old"});
  old.ask(get, {"/k"});
  CHECK(old.hear_string() == "old");
  store.on_thread([&] { store.listener().renew(); });
  CHECK(old.is_closed());
  loopback_client next(store.port());
  next.ask(get_num_keys);
  CHECK(next.hear(8) == hex("0000000000000000"));
  CHECK(store.sessions() == 1);
}

TEST_CASE("finishing sends what is queued, ends in order, and waits for the clients") {
  served_store store;
  loopback_client client(store.port());
  client.ask(ping, {}, 1);
  CHECK(client.hear(4) == hex("01000000"));
  std::promise<void> closed;
  auto done = closed.get_future();
  store.on_thread([&] { store.listener().finish([&] { closed.set_value(); }); });
  char byte = 0;
  ddprun::error_code error;
  client.socket().read_some(asio::buffer(&byte, 1), error);
  CHECK(error == asio::error::eof);  // not a reset
  client.ask(ping, {}, 2);           // is taken and thrown away
  CHECK(done.wait_for(0s) == std::future_status::timeout);
  SECTION("until they go") {
    client.socket().close();
    CHECK(done.wait_for(ddprun::tests::patience) == std::future_status::ready);
  }
  SECTION("unless it is cut") {
    store.on_thread([&] { store.listener().space().cut(); });
    CHECK(done.wait_for(ddprun::tests::patience) == std::future_status::ready);
  }
}

TEST_CASE("one that never stops asking does not keep the others from their turn") {
  served_store store;
  loopback_client greedy(store.port());
  loopback_client modest(store.port());
  std::string many;
  for (int index = 0; index < 1000; ++index)
    wire::append_request(many, set, {"/greedy", "x"});  // no reply: nothing slows it down
  std::atomic<bool> over = false;
  std::thread writer([&] {
    while (!over)
      greedy.say(many);
  });
  for (int index = 0; index < 200; ++index) {
    modest.ask(add, {"/modest"}, 1);
    modest.hear(8);
  }
  over = true;
  writer.join();
  greedy.ask(ping, {}, 3);
  CHECK(greedy.hear(4) == hex("03000000"));
}

TEST_CASE("the oldest that has used nothing of the store can be let go of, one that has cannot") {
  served_store store;
  const auto let_go = [&] {
    return store.on_thread([&] { return store.listener().space().cut_oldest_mute(); });
  };
  const auto comes = [&](std::size_t sessions) {
    return store.eventually([&] { return store.listener().space().session_count() == sessions; });
  };
  CHECK_FALSE(let_go());
  loopback_client user(store.port());
  user.ask(get_num_keys);
  user.hear(8);
  loopback_client silent(store.port(), false);
  REQUIRE(comes(2));
  loopback_client pings(store.port());
  pings.ask(ping, {}, 7);
  pings.hear(4);
  loopback_client waits(store.port());
  waits.ask(ping, {}, 7);
  waits.hear(4);
  CHECK(let_go());
  CHECK(silent.is_closed());
  CHECK(let_go());
  CHECK(pings.is_closed());
  waits.ask(wait, {"/k"});
  user.ask(set, {"/k", "value"});
  CHECK(waits.hear(1) == hex("00"));
  CHECK_FALSE(let_go());
  CHECK(store.sessions() == 2);
}
