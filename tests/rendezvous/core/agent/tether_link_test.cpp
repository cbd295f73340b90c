#include "rendezvous/core/agent/leases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/time_origin.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using ddprun::core::tether_link;
using ddprun::tests::origin;

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
