// What bounds the memory of a store's connections, and which of them is closed if memory is short.
#include "tests/rendezvous/store/loopback.hpp"
#include "tests/support/tcpstore_goldens.hpp"

#include <linux/sockios.h>
#include <memory>
#include <string>
#include <sys/ioctl.h>
#include <thread>
#include <vector>

using ddprun::tests::hex;
using ddprun::tests::loopback_client;
using ddprun::tests::served_store;
namespace asio = boost::asio;
namespace wire = ddprun::protocol::tcpstore;
using enum wire::opcode;

namespace {

// A list of them is a reply of 8 MB, more than the sockets hold.
void store_large_keys(loopback_client& writer) {
  const std::string padding(4000, 'x');
  for (int index = 0; index < 2000; ++index)
    writer.ask(set, {"/" + std::to_string(index) + padding, ""});
  writer.ask(get_num_keys);
  REQUIRE(writer.hear(8) == hex("D007000000000000"));
}

// Waits until the other end's socket has everything that was sent: on a busy machine even loopback
// may be late.
void wait_until_arrived(loopback_client& client) {
  int on_its_way = 1;
  while (on_its_way > 0) {
    REQUIRE(::ioctl(client.socket().native_handle(), SIOCOUTQ, &on_its_way) == 0);
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("unfinished requests are bounded in all") {
  ddprun::store::keyspace_options options;
  options.buffered_bytes_max = 140 * 1024;
  served_store store(options);
  std::string request;
  wire::append_request(request, set, {"/k", std::string(64 * 1024, 'x')});
  const std::string most = request.substr(0, request.size() - 1);
  // Until a client is served, the number of sessions does not include it.
  const auto is_served = [](loopback_client& client) {
    client.ask(ping, {}, 1);
    return client.hear(4) == hex("01000000");
  };
  loopback_client one(store.port());
  one.say(most);
  loopback_client two(store.port());
  REQUIRE(is_served(two));
  // It may be cut off before it has sent everything.
  ddprun::error_code cut;
  asio::write(two.socket(), asio::buffer(most), cut);
  const auto ended = [&] { return store.listener().space().session_count() == 1; };
  CHECK(store.eventually(ended));
  // The memory that the closed one held is free again.
  for (int index = 0; index < 5; ++index) {
    loopback_client more(store.port());
    REQUIRE(is_served(more));
    more.say(request.substr(0, 20 * 1024));
    more.socket().close();
    CHECK(store.eventually(ended));
  }
}

// A client that has sent the most, and then nothing more, must not keep out those that still send.
TEST_CASE("of unfinished requests the one that has been still for longest goes first") {
  ddprun::store::keyspace_options options;
  options.buffered_bytes_max = 200 * 1024;
  served_store store(options);
  std::string request;
  wire::append_request(request, set, {"/k", std::string(60 * 1024, 'x')});
  const auto buffered = [&](std::size_t least) {
    return store.eventually(
        [&, least] { return store.listener().space().buffered_bytes() > least; });
  };
  std::vector<std::unique_ptr<loopback_client>> hoarders;
  for (std::size_t index = 0; index < 3; ++index) {
    hoarders.push_back(std::make_unique<loopback_client>(store.port()));
    hoarders.back()->say(request.substr(0, request.size() - 10));
    REQUIRE(buffered((index + 1) * 59 * 1024));
  }
  hoarders[0]->say("x");  // it has made progress since
  loopback_client honest(store.port());
  honest.ask(ping, {}, 1);  // after that byte, in the order of the loop
  CHECK(honest.hear(4) == hex("01000000"));
  honest.say(request);
  honest.ask(ping, {}, 2);
  CHECK(honest.hear(4) == hex("02000000"));
  CHECK(hoarders[1]->is_closed());
  CHECK(store.sessions() == 3);
  hoarders[0]->say("xxxxxxxxx");
  hoarders[0]->ask(ping, {}, 3);
  CHECK(hoarders[0]->hear(4) == hex("03000000"));
}

TEST_CASE("what is known of a request of many strings counts") {
  served_store store;
  std::string request;
  const std::vector<std::string_view> none(50000);
  wire::append_request(request, multi_get, none);
  loopback_client client(store.port());
  client.say(std::string_view(request).substr(0, request.size() - 1));
  // The strings' lengths and their places.
  CHECK(store.eventually(
      [&] { return store.listener().space().buffered_bytes() >= none.size() * 16; }));
  client.say(std::string_view(request).substr(request.size() - 1));
  CHECK(client.hear(8) == hex("0000000000000000"));
  CHECK(store.eventually([&] { return store.listener().space().buffered_bytes() == 0; }));
}

TEST_CASE("a request that is done leaves no large buffer to the one behind it") {
  served_store store;
  std::string request;
  wire::append_request(request, set, {"/k", std::string(1024 * 1024, 'x')});
  std::string next;
  wire::append_request(next, set, {"/k2", std::string(1000, 'y')});
  loopback_client client(store.port());
  client.say(request.substr(0, request.size() / 2));
  REQUIRE(store.eventually([&] { return store.listener().space().buffered_bytes() > 500000; }));
  client.say(request.substr(request.size() / 2) + next.substr(0, next.size() - 1));
  CHECK(store.eventually([&] {
    auto& space = store.listener().space();
    return space.values().size() == 1 && space.buffered_bytes() < 10000;
  }));
  client.say(next.substr(next.size() - 1));
  client.ask(ping, {}, 1);
  CHECK(client.hear(4) == hex("01000000"));
  CHECK(store.on_thread([&] { return store.listener().space().values().size(); }) == 2);
}

TEST_CASE("a request that has begun must go on; between two there is no limit") {
  ddprun::store::keyspace_options options;
  options.stall_limit = std::chrono::seconds(2);
  served_store store(options);
  loopback_client idle(store.port());
  idle.ask(ping, {}, 1);
  CHECK(idle.hear(4) == hex("01000000"));
  std::string request;
  wire::append_request(request, set, {"/k", std::string(100, 'x')});
  loopback_client begun(store.port());
  begun.say(request.substr(0, 50));
  CHECK(begun.is_closed());
  loopback_client again(store.port());
  again.say(request.substr(0, 50));
  REQUIRE(store.eventually([&] { return store.listener().space().stalled_count() == 1; }));
  again.say(request.substr(50));
  again.ask(ping, {}, 3);
  CHECK(again.hear(4) == hex("03000000"));
  loopback_client last(store.port());
  last.say(request.substr(0, 50));
  CHECK(last.is_closed());
  again.ask(ping, {}, 4);
  CHECK(again.hear(4) == hex("04000000"));
  idle.ask(ping, {}, 5);
  CHECK(idle.hear(4) == hex("05000000"));
}

// The replies to a reader fill its socket's buffers, and the reader takes no more of them.
TEST_CASE("values that only stalled readers hold make room for new ones") {
  ddprun::store::keyspace_options options;
  options.limits.bytes_max = 5 * wire::value_bytes_max;
  served_store store(options);
  const auto bytes_used = [&] {
    return store.on_thread([&] { return store.listener().space().values().bytes_used(); });
  };
  loopback_client writer(store.port());
  std::vector<std::unique_ptr<loopback_client>> readers;
  constexpr std::size_t values = 12;
  for (std::size_t index = 0; index < values; ++index) {
    const std::string value(wire::value_bytes_max, static_cast<char>('a' + index));
    writer.ask(set, {"/k", value});
    writer.ask(get, {"/k"});
    REQUIRE((writer.hear_string() == value));
    readers.push_back(std::make_unique<loopback_client>(store.port()));
    readers.back()->ask(get, {"/k"});
    REQUIRE(store.eventually([&] { return store.listener().space().stalled_count() > 0; }));
    CHECK(bytes_used() <= options.limits.bytes_max);
  }
  // The first was cut off, the last was not.
  CHECK(store.eventually([&] {
    const std::size_t sessions = store.listener().space().session_count();
    return sessions < 1 + values && sessions + store.lines().size() == 1 + values;
  }));
  CHECK((readers.back()->hear_string() == std::string(wire::value_bytes_max, 'a' + values - 1)));
  readers.clear();
  REQUIRE(store.eventually([&] { return store.listener().space().session_count() == 1; }));
  CHECK(bytes_used() < 2 * wire::value_bytes_max);
}

TEST_CASE("lists of keys that are not taken are bounded in all") {
  ddprun::store::keyspace_options options;
  options.buffered_bytes_max = 40 * 1024 * 1024;
  served_store store(options);
  loopback_client writer(store.port());
  store_large_keys(writer);
  std::vector<std::unique_ptr<loopback_client>> readers;
  for (int index = 0; index < 12; ++index) {
    readers.push_back(std::make_unique<loopback_client>(store.port()));
    readers.back()->ask(list_keys);
  }
  CHECK(store.eventually([&] {
    const std::size_t sessions = store.listener().space().session_count();
    return sessions < 1 + readers.size() && sessions + store.lines().size() == 1 + readers.size();
  }));
  CHECK(readers.back()->hear(8) == hex("D007000000000000"));
  writer.ask(ping, {}, 1);
  CHECK(writer.hear(4) == hex("01000000"));
}

// It is cut off, and woken, while the client that needs its memory is served.
TEST_CASE("a client that was cut off leaves no reply behind for another one") {
  ddprun::store::keyspace_options options;
  options.buffered_bytes_max = 12 * 1024 * 1024;  // holds one list
  served_store store(options);
  loopback_client writer(store.port());
  store_large_keys(writer);
  const auto stalled = [&] { return store.listener().space().stalled_count() == 1; };
  std::string both;
  loopback_client first(store.port());
  wire::append_request(both, wait, {"/w"});
  wire::append_request(both, list_keys);
  first.say(both);
  REQUIRE(store.eventually(stalled));
  loopback_client second(store.port());
  both.clear();
  wire::append_request(both, set, {"/w", ""});
  wire::append_request(both, list_keys);
  second.say(both);
  CHECK(store.eventually([&] { return stalled() && store.lines().size() == 1; }));
  writer.ask(ping, {}, 1);
  CHECK(writer.hear(4) == hex("01000000"));
}

// Both are ready in the same turn of the loop; the reader's session has ended, but still exists
// when the writer's is served.
TEST_CASE("a session that ends lets go of its replies at once") {
  ddprun::store::keyspace_options options;
  options.buffered_bytes_max = 16;  // a client that leaves a reply unread is cut off
  options.limits.bytes_max = wire::value_bytes_max + wire::value_bytes_max / 2;
  served_store store(options);
  loopback_client reader(store.port());
  loopback_client writer(store.port());
  REQUIRE(store.eventually([&] { return store.listener().space().session_count() == 2; }));
  store.on_thread([&] {
    auto& values = store.listener().space().values();
    REQUIRE_FALSE(values.set("/k", std::string(wire::value_bytes_max, 'x')));
    reader.ask(get, {"/k"});
    wait_until_arrived(reader);
    writer.ask(append, {"/k", "y"});  // in place, unless somebody holds the value
    wait_until_arrived(writer);
  });
  writer.ask(ping, {}, 2);
  CHECK(writer.hear(4) == hex("02000000"));
  CHECK(store.eventually([&] { return store.listener().space().session_count() == 1; }));
}
