#include "rendezvous/client/daemon_session.hpp"

#include "rendezvous/protocol/agent_protocol.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <optional>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using client::daemon_session;
using tests::run_until;

namespace {

// A session under test, and a raw peer in place of the daemon.
struct session_at_work {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor{io, tests::loopback(0)};
  std::string endpoint = "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  std::vector<std::string> own_addresses;
  std::vector<std::shared_ptr<const daemon_message>> messages;
  std::vector<std::string> texts;
  std::optional<tests::raw_peer> daemon;
  std::unique_ptr<daemon_session> session;

  explicit session_at_work(client::client_limits limits = {30s, 30s, 30s}) {
    daemon_session::handlers told;
    told.connected = [this](std::string address) { own_addresses.push_back(std::move(address)); };
    told.message = [this](auto message) { messages.push_back(std::move(message)); };
    told.disconnected = [this](std::string text) { texts.push_back(std::move(text)); };
    session = std::make_unique<daemon_session>(io.get_executor(), std::move(told), limits);
  }

  void connect() {
    session->connect("127.0.0.1", acceptor.local_endpoint().port());
    acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (!error) daemon.emplace(std::move(socket));
    });
    REQUIRE(run_until(io, [&] { return daemon && !own_addresses.empty(); }));
  }
};

}  // namespace

TEST_CASE("a session carries messages both ways") {
  session_at_work f;
  f.connect();
  CHECK(f.own_addresses.front() == "127.0.0.1");
  f.session->send(status{.seq = 1});
  f.session->send(status{.seq = 2});
  REQUIRE(run_until(f.io, [&] { return f.daemon->lines() == 1; }));
  CHECK(f.daemon->heard() == protocol::encode(agent_message(status{.seq = 2})));
  f.daemon->say(protocol::encode(daemon_message(ack{2})) +
                protocol::encode(daemon_message(desired{.seq = 5})));
  REQUIRE(run_until(f.io, [&] { return f.messages.size() == 2; }));
  CHECK(std::get<ack>(*f.messages[0]).seq == 2);
  CHECK(std::get<desired>(*f.messages[1]).seq == 5);
}

TEST_CASE("a daemon that goes away is named with what the system said") {
  session_at_work f;
  f.connect();
  f.daemon->say(protocol::encode(daemon_message(ack{2})));
  REQUIRE(run_until(f.io, [&] { return f.messages.size() == 1; }));
  f.daemon->socket().close();
  REQUIRE(run_until(f.io, [&] { return !f.texts.empty(); }));
  CHECK(f.texts.front() == f.endpoint + ": connection closed by the peer");
  CHECK_FALSE(f.session->is_connected());

  f.acceptor.close();
  f.session->connect("127.0.0.1", std::stoi(f.endpoint.substr(10)));
  REQUIRE(run_until(f.io, [&] { return f.texts.size() == 2; }));
  CHECK(f.texts.back() == f.endpoint + ": Connection refused");
}

TEST_CASE("something else on the endpoint is told from a daemon") {
  SECTION("it speaks first") {
    session_at_work f;
    f.connect();
    f.daemon->say("SSH-2.0-OpenSSH_9.2\r\n");
    REQUIRE(run_until(f.io, [&] { return !f.texts.empty(); }));
    CHECK(f.texts.front() ==
          f.endpoint + ": something else listens here: it says \"SSH-2.0-OpenSSH_9.2\"");
  }
  SECTION("it says bytes without a line and closes") {
    session_at_work f;
    f.connect();
    f.daemon->say("\x15\x03\x03");
    f.daemon->socket().close();
    REQUIRE(run_until(f.io, [&] { return !f.texts.empty(); }));
    CHECK(f.texts.front() == f.endpoint + ": something else listens here: it says \"...\"");
  }
  SECTION("it closes without a word") {
    session_at_work f;
    f.connect();
    f.daemon->socket().close();
    REQUIRE(run_until(f.io, [&] { return !f.texts.empty(); }));
    CHECK(f.texts.front() ==
          f.endpoint +
              ": connection closed by the peer before it answered; is a ddprun daemon of "
              "this version listening there?");
  }
  SECTION("it never answers") {
    session_at_work f({30s, 50ms, 30s});
    f.connect();
    REQUIRE(run_until(f.io, [&] { return !f.texts.empty(); }));
    CHECK(f.texts.front() == f.endpoint + ": connected, but no answer within 50 ms");
  }
  SECTION("it speaks JSON of another kind") {
    session_at_work f;
    f.connect();
    f.daemon->say("{\"jsonrpc\":\"2.0\"}\n");
    REQUIRE(run_until(f.io, [&] { return !f.texts.empty(); }));
    CHECK(f.texts.front() == f.endpoint + ": the answer cannot be read: message.type: is missing");
  }
}

TEST_CASE("finish flushes the goodbye") {
  session_at_work f;
  f.connect();
  bool done = false;
  f.session->send(goodbye{session_id{1, 2}});
  f.session->finish(30s, [&] { done = true; });
  f.session.reset();
  REQUIRE(run_until(f.io, [&] { return f.daemon->closed(); }));
  CHECK(f.daemon->heard() == protocol::encode(agent_message(goodbye{session_id{1, 2}})));
  f.daemon->socket().close();
  REQUIRE(run_until(f.io, [&] { return done; }));

  session_at_work never_connected;
  done = false;
  never_connected.session->finish(30s, [&] { done = true; });
  CHECK_FALSE(done);
  REQUIRE(run_until(never_connected.io, [&] { return done; }));
}

TEST_CASE("a session may be destroyed inside each of its callbacks and at any other time") {
  for (const std::string when : {"dialing", "connected", "message", "disconnected"}) {
    boost::asio::io_context io{1};
    tcp::acceptor acceptor(io, tests::loopback(0));
    std::unique_ptr<daemon_session> session;
    bool destroyed = false;
    const auto destroy_if = [&](const std::string& here) {
      if (here != when) return;
      session.reset();
      destroyed = true;
    };
    daemon_session::handlers told;
    told.connected = [&](const std::string&) { destroy_if("connected"); };
    told.message = [&](const auto&) { destroy_if("message"); };
    told.disconnected = [&](const std::string&) { destroy_if("disconnected"); };
    session = std::make_unique<daemon_session>(io.get_executor(), std::move(told));
    session->connect("127.0.0.1", acceptor.local_endpoint().port());
    destroy_if("dialing");
    acceptor.async_accept([](boost::system::error_code error, tcp::socket daemon) {
      if (error) return;
      boost::asio::write(daemon, boost::asio::buffer(protocol::encode(daemon_message(ack{1}))));
    });
    CHECK(run_until(io, [&] { return destroyed; }));
    tests::run_ready(io);
  }
}
