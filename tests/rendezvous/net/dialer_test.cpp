#include "rendezvous/net/dialer.hpp"

#include "rendezvous/net/listener.hpp"
#include "rendezvous/net/resolve.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::net;
using namespace std::chrono_literals;
using tests::run_until;

TEST_CASE("numeric addresses are known without a look-up") {
  CHECK(numeric_address("127.0.0.1"));
  CHECK(numeric_address("[::1]"));
  CHECK(numeric_address("::1"));
  CHECK_FALSE(numeric_address("localhost"));
  CHECK_FALSE(numeric_address("node-1"));
  CHECK_FALSE(numeric_address(""));
}

TEST_CASE("endpoints are shown as a person types them") {
  CHECK(endpoint_text("::1", 80) == "[::1]:80");
  CHECK(endpoint_text("[::1]", 80) == "[::1]:80");
  CHECK(endpoint_text("node-a", 29400) == "node-a:29400");
  CHECK(address_text(boost::asio::ip::make_address("::ffff:10.0.0.1")) == "10.0.0.1");
}

TEST_CASE("localhost is looked up off the loop") {
  boost::asio::io_context io{1};
  resolver resolving(io.get_executor());
  std::optional<error_code> answer;
  endpoints found;
  resolving.start("localhost", 7, [&](error_code error, endpoints all) {
    answer = error;
    found = std::move(all);
  });
  CHECK_FALSE(answer);
  io.run();  // the look-up counts as work
  REQUIRE(answer);
  CHECK_FALSE(*answer);
  REQUIRE_FALSE(found.empty());
  CHECK(found.front().port() == 7);
  CHECK(found.front().address().is_loopback());
}

TEST_CASE("a cancelled look-up is unheard, and its loop may be gone when it ends") {
  for (int turn = 0; turn < 20; ++turn) {
    bool heard = false;
    boost::asio::io_context io{1};
    resolver resolving(io.get_executor());
    resolving.start("localhost", 7, [&](error_code, const endpoints&) { heard = true; });
    resolving.cancel();
    io.run();
    CHECK_FALSE(heard);
  }
}

TEST_CASE("dialing finds a listener by name and by number") {
  boost::asio::io_context io{1};
  listener listening(io.get_executor());
  std::string problem;
  const auto port = listening.open("", 0, problem);
  INFO(problem);
  REQUIRE(port.has_value());
  int accepted = 0;
  listening.start({[&](tcp::socket) { ++accepted; }, {}});
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    dialer dialing(io.get_executor());
    std::optional<dial_result> answer;
    dialing.start(host, *port, 0s, 30s, [&](dial_result found) { answer = std::move(found); });
    REQUIRE(run_until(io, [&] { return answer.has_value(); }));
    INFO(answer->text);
    CHECK(answer->socket);
  }
  REQUIRE(run_until(io, [&] { return accepted == 2; }));
}

TEST_CASE("a failed dial says which address was tried and what the system said") {
  boost::asio::io_context io{1};
  const tests::silent_port silent(io);
  dialer dialing(io.get_executor());
  std::optional<dial_result> answer;
  const auto heard = [&](dial_result found) { answer = std::move(found); };
  dialing.start("127.0.0.1", silent.port(), 0s, 30s, heard);
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK(answer->text == "127.0.0.1:" + std::to_string(silent.port()) + ": Connection refused");

  answer.reset();
  dialing.start("localhost", silent.port(), 0s, 30s, heard);
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK(answer->text.find("127.0.0.1:" + std::to_string(silent.port()) + ": Connection refused") !=
        std::string::npos);

  answer.reset();
  dialing.start("no-such-host.invalid", 1, 0s, 30s, heard);
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK(answer->text.starts_with(
      "no-such-host.invalid:1: cannot look up no-such-host.invalid: Host not found"));
}

TEST_CASE("a dial ends at its limit and counts it from the end of the delay") {
  boost::asio::io_context io{1};
  // A backlog that is full: the handshake of one more connection is never completed.
  tcp::acceptor full(io);
  full.open(tcp::v4());
  full.bind(tests::loopback(0));
  full.listen(0);
  std::vector<tcp::socket> fillers;
  for (int turn = 0; turn < 8; ++turn) {
    fillers.emplace_back(io);
    fillers.back().async_connect(full.local_endpoint(), [](error_code) {});
  }
  tests::run_ready(io);
  dialer dialing(io.get_executor());
  std::optional<dial_result> answer;
  dialing.start("127.0.0.1", full.local_endpoint().port(), 1ms, 100ms,
                [&](dial_result found) { answer = std::move(found); });
  REQUIRE(run_until(io, [&] { return answer.has_value(); }));
  CHECK_FALSE(answer->socket);
  CHECK(answer->text.ends_with(": no answer within 100 ms"));
}

namespace {

// A name service that the test can delay and change; its threads may outlive the test.
struct name_service {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> addresses;
  bool hangs = false;
  int asked = 0;

  static resolver::look_up_function of(const std::shared_ptr<name_service>& self) {
    return [self](const std::string&, std::uint16_t port, endpoints& found) {
      std::unique_lock lock(self->mutex);
      ++self->asked;
      self->changed.wait(lock, [&] { return !self->hangs; });
      for (const std::string& each : self->addresses)
        found.emplace_back(boost::asio::ip::make_address(each), port);
      return error_code();
    };
  }
  void set(bool hanging, std::vector<std::string> all) {
    const std::lock_guard lock(mutex);
    hangs = hanging;
    addresses = std::move(all);
    changed.notify_all();
  }
  int count() {
    const std::lock_guard lock(mutex);
    return asked;
  }
};

struct named_fixture {
  boost::asio::io_context io{1};
  std::shared_ptr<name_service> names = std::make_shared<name_service>();
  listener listening{io.get_executor()};
  dialer dialing{io.get_executor(), name_service::of(names)};
  std::uint16_t port = 0;

  named_fixture() { listen("127.0.0.1", 0); }
  ~named_fixture() { names->set(false, {}); }
  void listen(const std::string& address, std::uint16_t wanted) {
    std::string problem;
    const auto opened = listening.open(address, wanted, problem);
    INFO(problem);
    REQUIRE(opened.has_value());
    port = *opened;
    listening.start({[](const tcp::socket&) {}, {}});
  }
  dial_result dial(duration limit = 60s) {
    std::optional<dial_result> answer;
    dialing.start("daemon", port, 0s, limit, [&](dial_result found) { answer = std::move(found); });
    REQUIRE(run_until(io, [&] { return answer.has_value(); }));
    return std::move(*answer);
  }
};

}  // namespace

TEST_CASE("a reconnect does not wait for the name service") {
  named_fixture f;
  f.names->set(false, {"127.0.0.1"});
  REQUIRE(f.dial().socket);
  f.names->set(true, {"127.0.0.1"});
  for (int turn = 0; turn < 5; ++turn) {
    const dial_result again = f.dial();
    INFO(again.text);
    CHECK(again.socket);
  }
  REQUIRE(run_until(f.io, [&] { return f.names->count() > 1; }));
  CHECK(f.names->count() == 2);  // one is under way, which is enough

  // The daemon is down for a moment; that is reported at once, so that it can be dialled again.
  f.listening.close();
  const dial_result down = f.dial();
  CHECK(down.text == "daemon:" + std::to_string(f.port) + ": 127.0.0.1:" + std::to_string(f.port) +
                         ": Connection refused");
  f.listen("127.0.0.1", f.port);
  CHECK(f.dial().socket);
}

TEST_CASE("a name that has moved is followed") {
  named_fixture f;
  f.names->set(false, {"127.0.0.1"});
  REQUIRE(f.dial().socket);
  f.listening.close();
  f.names->set(false, {"127.0.0.2"});
  f.listen("127.0.0.2", f.port);
  // The old address may refuse before the look-up has ended.
  dial_result moved = f.dial();
  while (!moved.socket)
    moved = f.dial();
  CHECK(moved.endpoint.address().to_string() == "127.0.0.2");
}

TEST_CASE("an address that does not answer leaves time for the next one") {
  named_fixture f;
  // A backlog that is full: the handshake of one more connection is never completed.
  tcp::acceptor full(f.io);
  full.open(tcp::v4());
  full.bind({boost::asio::ip::make_address_v4("127.0.0.3"), f.port});
  full.listen(0);
  std::vector<tcp::socket> fillers;
  for (int turn = 0; turn < 8; ++turn) {
    fillers.emplace_back(f.io);
    fillers.back().async_connect(full.local_endpoint(), [](error_code) {});
  }
  tests::run_ready(f.io);
  f.names->set(false, {"127.0.0.3", "127.0.0.1"});
  const dial_result found = f.dial(30s);
  INFO(found.text);
  REQUIRE(found.socket);
  CHECK(found.endpoint.address().to_string() == "127.0.0.1");
}

TEST_CASE("where a stranger answered, the other addresses of the name go first") {
  named_fixture f;
  listener other(f.io.get_executor());
  std::string problem;
  REQUIRE(other.open("127.0.0.2", f.port, problem).has_value());
  f.names->set(false, {"127.0.0.1", "127.0.0.2"});
  const dial_result first = f.dial();
  REQUIRE(first.endpoint.address().to_string() == "127.0.0.1");
  f.dialing.distrust(first.endpoint);
  CHECK(f.dial().endpoint.address().to_string() == "127.0.0.2");
  // It is also remembered as the one that answered.
  CHECK(f.dial().endpoint.address().to_string() == "127.0.0.2");
}

TEST_CASE("a name service that hangs is named when the limit is over") {
  named_fixture f;
  f.names->set(true, {});
  const dial_result none = f.dial(50ms);
  CHECK(none.text ==
        "daemon:" + std::to_string(f.port) + ": cannot look up the name: no answer within 50 ms");
}

TEST_CASE("a dialer that is destroyed or cancelled is unheard") {
  named_fixture f;
  f.names->set(true, {});
  const auto unheard = [](const dial_result&) { FAIL("heard"); };
  {
    dialer dialing(f.io.get_executor(), name_service::of(f.names));
    dialing.start("127.0.0.1", f.port, 0s, 30s, unheard);
  }
  f.dialing.start("daemon", f.port, 0s, 30s, unheard);
  REQUIRE(run_until(f.io, [&] { return f.names->count() == 1; }));
  f.dialing.cancel();
  f.names->set(false, {"127.0.0.1"});
  // The look-up went on, and the next start knows what it found.
  CHECK(f.dial().socket);
  CHECK(f.names->count() <= 2);
}
