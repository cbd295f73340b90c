#include "rendezvous/client/tether_client.hpp"
#include "rendezvous/client/tether_host.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"

#include <list>
#include <optional>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using client::tether_client;
using client::tether_host;
using tests::run_until;

namespace {

// A host behind a real port, and the events that its machine gets.
struct tether_at_work {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor{io, tests::loopback(0)};
  std::uint16_t port = acceptor.local_endpoint().port();
  std::vector<std::pair<std::uint64_t, tether_hello>> attached;
  std::vector<std::pair<std::uint64_t, tether_beat>> beats;
  std::vector<std::uint64_t> detached;
  std::vector<std::string> strangers;
  std::unique_ptr<tether_host> host;

  explicit tether_at_work(tether_host::limits limits = {}) {
    tether_host::handlers told;
    told.attached = [this](std::uint64_t id, tether_hello hello) {
      attached.push_back({id, hello});
    };
    told.beat = [this](std::uint64_t id, const tether_beat& word) { beats.push_back({id, word}); };
    told.detached = [this](std::uint64_t id) { detached.push_back(id); };
    told.stranger = [this](std::string text) { strangers.push_back(std::move(text)); };
    host = std::make_unique<tether_host>(std::move(told), limits);
    accept();
  }
  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      host->accept(std::move(socket));
      accept();
    });
  }
};

struct member_end {
  int connected = 0;
  std::vector<std::uint64_t> answers;
  std::vector<std::string> texts;
  tether_client client;

  explicit member_end(boost::asio::io_context& io)
      : client(io.get_executor(),
               {[this] { ++connected; }, [this](std::uint64_t seq) { answers.push_back(seq); },
                [this](std::string text) { texts.push_back(text); }},
               {30s, 30s, 30s}) {}
};

const tether_hello greeting{7, 3, session_id{1, 2}, 1};

}  // namespace

TEST_CASE("a tether attaches, beats, is answered and detaches") {
  tether_at_work f;
  member_end member(f.io);
  member.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 1; }));
  CHECK(f.attached[0].second == greeting);
  CHECK(member.connected == 1);
  const std::uint64_t id = f.attached[0].first;
  f.host->answer(id, 0);
  REQUIRE(run_until(f.io, [&] { return member.answers.size() == 1; }));
  member.client.beat({1, true});
  REQUIRE(run_until(f.io, [&] { return f.beats.size() == 1; }));
  CHECK(f.beats[0].second.succeeded);
  f.host->answer(id, f.beats[0].second.seq);
  REQUIRE(run_until(f.io, [&] { return member.answers.size() == 2; }));
  CHECK(member.answers == std::vector<std::uint64_t>{0, 1});
  member.client.drop();
  REQUIRE(run_until(f.io, [&] { return f.detached.size() == 1; }));
  CHECK(f.detached[0] == id);
  CHECK(member.texts.empty());
  CHECK(f.host->size() == 0);
}

TEST_CASE("a refused member hears why") {
  tether_at_work f;
  member_end member(f.io);
  member.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 1; }));
  f.host->refuse(f.attached[0].first, "this is round 4");
  REQUIRE(run_until(f.io, [&] { return !member.texts.empty(); }));
  CHECK(member.texts[0] == "127.0.0.1:" + std::to_string(f.port) + ": refused: this is round 4");
  CHECK(f.detached.empty());
}

TEST_CASE("dropping all tethers ends the members' ends and not the machine's") {
  tether_at_work f;
  member_end one(f.io);
  member_end two(f.io);
  one.client.dial("127.0.0.1", f.port, 0s, greeting);
  two.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 2; }));
  f.host->drop_all();
  REQUIRE(run_until(f.io, [&] { return one.texts.size() + two.texts.size() == 2; }));
  CHECK(f.detached.empty());
}

TEST_CASE("strangers on the tether port are ended and told apart") {
  tether_at_work f({50ms, 10s, 100});
  tests::raw_peer silent(f.io, f.port);
  REQUIRE(run_until(f.io, [&] { return silent.closed(); }));
  tests::raw_peer babbler(f.io, f.port);
  babbler.say("hello\n");
  REQUIRE(run_until(f.io, [&] { return babbler.lines() == 1; }));
  CHECK(babbler.heard().find("refused") != std::string::npos);
  tests::raw_peer hasty(f.io, f.port);
  hasty.say("{\"type\":\"tether_beat\",\"seq\":1}\n");
  REQUIRE(run_until(f.io, [&] { return hasty.lines() == 1; }));
  CHECK(f.attached.empty());
  CHECK(f.detached.empty());
  CHECK(f.strangers.size() == 3);
}

TEST_CASE("strangers that say half a hello take no member's place") {
  tether_at_work f;
  f.host->set_tethers_max(3);
  member_end first(f.io);
  first.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 1; }));
  std::list<tests::raw_peer> strangers;
  for (int count = 0; count < 20; ++count)
    strangers.emplace_back(f.io, f.port).say("{");
  member_end second(f.io);
  second.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 2; }));
  REQUIRE(run_until(f.io, [&] { return f.strangers.size() == 19; }));
  CHECK(f.strangers.front().find("another connection needed the room") != std::string::npos);
  CHECK(f.detached.empty());
  // Members are not disconnected to make room for others.
  member_end third(f.io);
  third.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 3; }));
  tests::raw_peer late(f.io, f.port);
  REQUIRE(run_until(f.io, [&] { return late.closed(); }));
  CHECK(f.detached.empty());
}

TEST_CASE("a host that is destroyed takes its tethers along") {
  tether_at_work f;
  member_end member(f.io);
  member.client.dial("127.0.0.1", f.port, 0s, greeting);
  REQUIRE(run_until(f.io, [&] { return f.attached.size() == 1; }));
  f.acceptor.close();
  f.host.reset();
  REQUIRE(run_until(f.io, [&] { return !member.texts.empty(); }));
}
