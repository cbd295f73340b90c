// Both ends of the tether, without an agent.
#include "rendezvous/core/agent/leases.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::held_tethers;
using kind = ddprun::core::held_tethers::beat_kind;
using ddprun::core::tether_link;
using ddprun::tests::origin;

// The leader's end.

namespace {

tether_hello hello_of(std::uint32_t group_rank, std::uint64_t agent = 0) {
  return {1, 1, {9, agent != 0 ? agent : group_rank}, group_rank};
}

}  // namespace

TEST_CASE("a beat renews the lease from when the message before it was answered") {
  held_tethers held;
  held.attach(100, hello_of(1));
  held.ack(100, origin);
  CHECK_FALSE(held.leased_from(1));  // it is not known that the ack has arrived
  CHECK(held.beat(100, {1}, origin + 5s) == kind::renews);
  CHECK(held.leased_from(1) == origin);
  CHECK(held.beat(100, {2}, origin + 6s) == kind::heard);  // the last one got no ack
  CHECK(held.beat(100, {2}, origin + 7s) == kind::old);
  CHECK(held.beat(999, {3}, origin + 7s) == kind::old);
  CHECK(held.leased_from(1) == origin);
}

TEST_CASE("the oldest of so many counts, and where one is missing nothing does") {
  held_tethers held;
  for (const std::uint32_t group_rank : {1U, 2U}) {
    held.attach(100 + group_rank, hello_of(group_rank));
    held.ack(100 + group_rank, origin + group_rank * 1s);
  }
  CHECK(held.beat(101, {1}, origin + 5s) == kind::renews);
  CHECK_FALSE(held.leased_from(2));
  CHECK(held.beat(102, {1}, origin + 5s) == kind::renews);
  CHECK(held.leased_from(2) == origin + 1s);
  CHECK_FALSE(held.leased_from(3));
  held.ack(101, origin + 5s);
  CHECK(held.beat(101, {2}, origin + 6s) == kind::renews);
  CHECK(held.leased_from(2) == origin + 2s);
}

TEST_CASE("of old acks the oldest are told first, by the newest tether of each member") {
  held_tethers held;
  held.attach(100, hello_of(7));  // it never got an ack, so it has no lease from here
  for (const std::uint32_t group_rank : {1U, 2U, 3U}) {
    held.attach(100 + group_rank, hello_of(group_rank));
    held.ack(100 + group_rank, origin - group_rank * 1s);
  }
  CHECK(held.acks_before(origin - 2s, origin + 1s) == std::vector<tether_age>{{3, 4s}, {2, 3s}});
  held.attach(203, hello_of(3));
  held.ack(203, origin);
  held.let_go();
  CHECK(held.acks_before(origin - 2s, origin + 1s) == std::vector<tether_age>{{2, 3s}});
}

TEST_CASE("no more old acks are told than a status holds") {
  held_tethers held;
  for (std::uint32_t group_rank = 1; group_rank <= tether_ages_max + 1; ++group_rank) {
    held.attach(group_rank, hello_of(group_rank));
    held.ack(group_rank, origin + group_rank * 1s);
  }
  const auto told = held.acks_before(origin + 100s, origin + 100s);
  REQUIRE(told.size() == tether_ages_max);
  CHECK(told.front() == tether_age{1, 99s});
  CHECK(told.back().group_rank == tether_ages_max);
}

TEST_CASE("a group rank has one agent for the whole round, and one tether: its newest") {
  held_tethers held;
  CHECK_FALSE(held.attach(100, hello_of(1)));
  CHECK(held.is_other(hello_of(1, 8)));
  CHECK_FALSE(held.is_other(hello_of(1)));
  CHECK_FALSE(held.is_other(hello_of(2)));
  CHECK(held.attach(101, hello_of(1)) == 100U);
  CHECK(held.open() == 1);
  CHECK(held.beat(100, {1}, origin) == kind::old);
  held.detach(101);
  CHECK(held.open() == 0);
  CHECK_FALSE(held.attach(102, hello_of(1)));  // that one had ended
  CHECK(held.is_other(hello_of(1, 8)));
}

TEST_CASE("a tether that is let go or ends takes back no lease") {
  held_tethers held;
  CHECK_FALSE(held.let_go());
  held.attach(100, hello_of(1));
  held.ack(100, origin);
  held.beat(100, {1}, origin + 1s);
  CHECK(held.let_go());
  CHECK(held.open() == 0);
  CHECK(held.leased_from(1) == origin);
}

TEST_CASE("a beat of one that still works needs this node, one of another does not") {
  held_tethers held;
  held.attach(100, hello_of(1));
  CHECK(held.beat(100, {1, true}, origin) == kind::heard);
  CHECK_FALSE(held.needed_at());
  held.beat(100, {2, false}, origin + 1s);
  held.beat(100, {3, true}, origin + 2s);
  CHECK(held.needed_at() == origin + 1s);
}

// The member's end.

namespace {

constexpr duration interval = 1s;

}  // namespace

TEST_CASE("an answer renews the lease from when what it answers was sent") {
  tether_link link;
  CHECK_FALSE(link.is_wanted());
  CHECK_FALSE(link.acked(0, origin + 9s, interval));
  link.dial(origin, 0s);
  CHECK(link.is_wanted());
  CHECK(link.acked(0, origin + 9s, interval));
  CHECK(link.leased_from() == origin);
  CHECK(link.beat_deadline() == origin + interval);
  const std::uint64_t seq = link.beat(origin + 1s);
  CHECK_FALSE(link.beat_deadline());
  CHECK_FALSE(link.acked(seq + 1, origin + 9s, interval));
  CHECK_FALSE(link.acked(0, origin + 9s, interval));  // the ack of the hello has come already
  CHECK(link.leased_from() == origin);
  CHECK(link.acked_at() == origin + 9s);
  CHECK(link.acked(seq, origin + 10s, interval));
  CHECK(link.leased_from() == origin + 1s);
  CHECK(link.acked_at() == origin + 10s);
  CHECK_FALSE(link.acked(seq, origin + 9s, interval));
}

TEST_CASE("an answer to the hello counts from the oldest dial that it may be for") {
  tether_link link;
  link.dial(origin, 0s);
  link.dial(origin + 3s, 100ms);
  SECTION("which was silent") {
    CHECK(link.acked(0, origin + 9s, interval));
    CHECK(link.leased_from() == origin);
  }
  SECTION("but not from one that broke") {
    link.broke(origin + 4s);
    link.dial(origin + 4s, 0s);
    CHECK(link.acked(0, origin + 9s, interval));
    CHECK(link.leased_from() == origin + 4s);
  }
  SECTION("nor from one that was answered; and an old moment takes nothing back") {
    CHECK(link.acked(0, origin + 9s, interval));
    link.beat(origin + 5s);
    link.dial(origin + 6s, 0s);
    CHECK(link.acked(0, origin + 9s, interval));
    CHECK(link.leased_from() == origin + 6s);
  }
}

TEST_CASE("what is under way is silent after the limit, counted from when it was to go out") {
  tether_link link;
  CHECK_FALSE(link.deadline(4s));
  link.dial(origin, 500ms);
  CHECK(link.silence_deadline(4s) == origin + 4500ms);
  CHECK(link.deadline(4s) == origin + 4500ms);
  CHECK(link.acked(0, origin + 9s, interval));
  CHECK_FALSE(link.silence_deadline(4s));
  CHECK(link.deadline(4s) == origin + interval);
  link.beat(origin + 1s);
  CHECK(link.silence_deadline(4s) == origin + 5s);
  link.let_go();
  CHECK_FALSE(link.deadline(4s));
  CHECK_FALSE(link.is_wanted());
}

TEST_CASE("dials are doubled up to half of a heartbeat, and begin anew with an answer") {
  tether_link link;
  CHECK(link.failed("refused", interval) == 50ms);
  CHECK(link.failed("reset", interval) == 100ms);
  CHECK(link.error() == "reset");
  for (int i = 0; i < 40; ++i)
    link.failed("reset", interval);
  CHECK(link.failed("reset", interval) == 500ms);
  link.dial(origin, 0s);
  CHECK(link.acked(0, origin + 9s, interval));
  CHECK(link.failed("reset", interval) == 50ms);
}
