#include "rendezvous/store/listener.hpp"

#include "rendezvous/store/session.hpp"
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/tcpstore_goldens.hpp"

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
  // One that validates in time may be silent for as long as it likes.
  loopback_client client(store.port());
  client.ask(ping, {}, 1);
  CHECK(client.hear(4) == hex("01000000"));
  loopback_client later(store.port(), false);
  CHECK(later.is_closed());
  client.ask(ping, {}, 2);
  CHECK(client.hear(4) == hex("02000000"));
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

TEST_CASE("a client that does not read is cut off, and holds nobody up") {
  ddprun::store::keyspace_options options;
  options.stall_limit = 200ms;
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

TEST_CASE("unfinished requests are bounded in all") {
  ddprun::store::keyspace_options options;
  options.unfinished_bytes_max = 100 * 1024;
  served_store store(options);
  std::string request;
  wire::append_request(request, set, {"/k", std::string(64 * 1024, 'x')});
  const std::string most = request.substr(0, request.size() - 1);
  loopback_client one(store.port());
  one.say(most);
  loopback_client two(store.port());
  CHECK_NOTHROW(two.say(most));
  const auto ended = [&] { return store.listener().space().session_count() == 1; };
  CHECK(store.eventually(ended));
  // What the closed one held is free again.
  for (int index = 0; index < 5; ++index) {
    loopback_client more(store.port());
    more.say(request.substr(0, 20 * 1024));
  }
  CHECK(store.eventually(ended));
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
             ddprun::core::store_key_overhead_bytes + 2 +
                 count * ddprun::core::store_item_overhead_bytes;
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

TEST_CASE("closing sends what is queued, ends in order, and waits for the clients") {
  served_store store;
  loopback_client client(store.port());
  client.ask(ping, {}, 1);
  CHECK(client.hear(4) == hex("01000000"));
  std::promise<void> closed;
  auto done = closed.get_future();
  store.on_thread([&] { store.listener().close(1h, [&] { closed.set_value(); }); });
  char byte = 0;
  ddprun::error_code error;
  client.socket().read_some(asio::buffer(&byte, 1), error);
  CHECK(error == asio::error::eof);  // not a reset
  client.ask(ping, {}, 2);           // is taken and thrown away
  CHECK(done.wait_for(0s) == std::future_status::timeout);
  client.socket().close();
  CHECK(done.wait_for(ddprun::tests::patience) == std::future_status::ready);
}

TEST_CASE("closing cuts those that stay too long") {
  served_store store;
  loopback_client client(store.port());
  client.ask(ping, {}, 1);
  CHECK(client.hear(4) == hex("01000000"));
  std::promise<void> closed;
  auto done = closed.get_future();
  store.on_thread([&] { store.listener().close(20ms, [&] { closed.set_value(); }); });
  CHECK(done.wait_for(ddprun::tests::patience) == std::future_status::ready);
}

TEST_CASE("a session may start with bytes that others have read") {
  served_store store;
  asio::io_context context(1);
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  loopback_client client(acceptor.local_endpoint().port(), false);
  const auto space = std::make_shared<ddprun::store::keyspace>();
  std::string request = hex("00 CEF7853C");
  wire::append_request(request, set, {"/k", std::string(5000, 'v')});
  wire::append_request(request, get, {"/k"});
  const std::size_t seen =
      GENERATE(std::size_t{1}, std::size_t{5}, std::size_t{3000}, std::size_t{5035});
  REQUIRE(request.size() >= seen);
  ddprun::store::start_session(acceptor.accept(), space, request.substr(0, seen));
  CHECK(space->session_count() == 1);
  std::thread server([&] { context.run(); });
  client.say(request.substr(seen));
  CHECK(client.hear_string() == std::string(5000, 'v'));
  client.socket().close();
  server.join();  // the session ended with its client
  CHECK(space->session_count() == 0);
}

TEST_CASE("a listener says why it cannot listen") {
  served_store store;
  asio::io_context context(1);
  ddprun::store::listener other(context.get_executor());
  CHECK(other.open("127.0.0.1", store.port()) == asio::error::address_in_use);
  CHECK(other.port() == 0);
  CHECK(other.open("localhost", 0) == errc::invalid_argument);
  CHECK_FALSE(other.open("127.0.0.1", 0));
  CHECK(other.port() != 0);
}
