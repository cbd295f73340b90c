#include "launcher/agent/round_service.hpp"

#include "launcher/agent/descriptor_needs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/no_descriptors.hpp"

#include <list>
#include <optional>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using tests::no_descriptors;
using tests::raw_peer;
using tests::run_until;

namespace {

struct service_at_work {
  boost::asio::io_context io{1};
  socket_thread thread;
  std::vector<core::agent_event> events;
  round_service service{io.get_executor(), thread, round_service_options{},
                        [this](core::agent_event event) { events.push_back(std::move(event)); },
                        [](note_level, const std::string&) {}};

  // Returns the newest event of this kind that came after `from`.
  template <typename Event>
  std::optional<Event> newest(std::size_t from) {
    std::optional<Event> found;
    for (std::size_t index = from; index < events.size(); ++index) {
      if (const auto* event = std::get_if<Event>(&events[index])) found = *event;
    }
    return found;
  }
  template <typename Event>
  Event wait_for() {
    const std::size_t from = events.size();
    REQUIRE(run_until(io, [&] { return newest<Event>(from).has_value(); }));
    return *newest<Event>(from);
  }
  std::uint16_t open(round_number round) {
    core::open_service wanted;
    wanted.round = round;
    service.open(wanted, 0);
    const auto opened = wait_for<core::service_opened>();
    REQUIRE(opened.round == round);
    return opened.service_port;
  }
};

std::string tether_hello_line(round_number round) {
  return R"({"type":"tether_hello","protocol":4,"instance":"1","round":)" + std::to_string(round) +
         R"(,"session":"00000000000000000000000000000001","group_rank":1})"
         "\n";
}

}  // namespace

TEST_CASE("a late word about a tether of the last round does not hit one of this round") {
  service_at_work f;
  raw_peer old(f.io, f.open(1));
  old.say(tether_hello_line(1));
  const std::uint64_t old_id = f.wait_for<core::member_attached>().tether;
  f.service.close(1);
  raw_peer now(f.io, f.open(2));
  now.say(tether_hello_line(2));
  const std::uint64_t id = f.wait_for<core::member_attached>().tether;
  CHECK(id != old_id);
  CHECK(old.closed());

  // The main thread decided this about the old member while the new round was being opened.
  f.service.refuse(old_id, "round 1 is over");
  f.service.answer(id, 7);
  REQUIRE(run_until(f.io, [&] { return now.lines() != 0; }));
  CHECK(now.heard().find("refused") == std::string::npos);
  CHECK_FALSE(now.closed());
}

// Each time one descriptor less is left, so that each part of the service fails once: either the
// round is open and its clients get what they need, or it is not opened.
TEST_CASE("a round for whose service there are no descriptors fails in one line") {
  for (std::size_t left = 0; left < 4; ++left) {
    service_at_work f;
    run_until(f.io, [] { return true; });
    core::open_service wanted;
    wanted.round = 1;
    std::string text;
    std::uint16_t port = 0;
    {
      no_descriptors none;
      none.give_back(left);
      f.service.open(wanted, 0);
      REQUIRE(run_until(f.io, [&] { return !f.events.empty(); }));
      const auto failed = f.newest<core::service_failed>(0);
      if (failed) text = failed->text;
      if (!failed) port = f.newest<core::service_opened>(0)->service_port;
    }
    INFO("descriptors left: " << left);
    if (left < 3) {  // epoll, an event and the port
      CHECK(text.find("Too many open files") != std::string::npos);
      CHECK(text.find("ulimit -u") == std::string::npos);
      port = f.open(2);
    }
    raw_peer client(f.io, port);
    client.say(std::string("\x00\xCE\xF7\x85\x3C\x0D\x2A\x00\x00\x00", 10));
    CHECK(run_until(f.io, [&] { return client.heard().size() == 4; }));
  }
}

TEST_CASE("of those that say nothing the oldest makes room, a user of the store stays") {
  const std::string validate("\x00\xCE\xF7\x85\x3C", 5);
  const std::string count_keys = "\x07";
  service_at_work f;
  const std::uint16_t port = f.open(1);
  raw_peer user(f.io, port);
  user.say(validate + count_keys);
  REQUIRE(run_until(f.io, [&] { return user.heard().size() == 8; }));
  raw_peer first(f.io, port);
  first.say(validate + std::string("\x0D\x2A\x00\x00\x00", 5));
  REQUIRE(run_until(f.io, [&] { return first.heard().size() == 4; }));
  raw_peer second(f.io, port);
  core::open_service wanted;
  wanted.world_size = wanted.group_world_size = 1;
  std::list<raw_peer> others;
  while (others.size() + 2 < mute_connections(wanted))
    others.emplace_back(f.io, port);
  others.emplace_back(f.io, port);
  REQUIRE(run_until(f.io, [&] { return first.closed(); }));
  CHECK_FALSE(second.closed());
  others.emplace_back(f.io, port);
  REQUIRE(run_until(f.io, [&] { return second.closed(); }));
  CHECK_FALSE(others.front().closed());
  user.say(count_keys);
  REQUIRE(run_until(f.io, [&] { return user.heard().size() == 16; }));
  CHECK_FALSE(user.closed());
}
