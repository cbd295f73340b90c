// What the parts remember of messages, and of a wait. news_test.cpp shows through the agent which
// messages are news.
#include "rendezvous/core/agent/desired_state.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::core::desired_state;
using ddprun::core::told_wait;

namespace {

constexpr time_point start{1000s};

desired word_of(instance_id instance, round_number round, std::uint64_t seq,
                std::uint64_t epoch = 0) {
  desired value;
  value.epoch = epoch;
  value.instance = instance;
  value.round = round;
  value.seq = seq;
  return value;
}

}  // namespace

TEST_CASE("within an instance a higher round or a higher number is news") {
  desired_state word;
  CHECK(word.take(word_of(7, 3, 10)));
  CHECK_FALSE(word.take(word_of(7, 3, 10)));
  CHECK_FALSE(word.take(word_of(7, 2, 9)));
  CHECK(word.take(word_of(7, 4, 9)));
  CHECK(word.take(word_of(7, 2, 10)));
  CHECK(word.round_in(7, 0) == 4);
  CHECK(word.seq_in(7) == 10);
}

TEST_CASE("another instance counts on one connection by the number, on the next anew") {
  desired_state word;
  CHECK(word.take(word_of(7, 3, 10)));
  CHECK_FALSE(word.take(word_of(8, 9, 10)));
  word.connected();
  CHECK(word.take(word_of(8, 1, 1)));
  CHECK(word.round_in(8, 0) == 1);
  CHECK(word.round_in(7, 0) == 0);
  CHECK(word.seq_in(7) == 0);
}

TEST_CASE("an older epoch is never news, a newer one always") {
  desired_state word;
  word.enter_epoch(2);
  CHECK(word.is_older(1));
  CHECK_FALSE(word.is_older(2));
  CHECK_FALSE(word.take(word_of(7, 3, 10, 1)));
  CHECK(word.take(word_of(7, 3, 10, 2)));
  CHECK(word.take(word_of(7, 1, 1, 3)));
  CHECK(word.is_older(2));
}

TEST_CASE(
    "sequence numbers of an older epoch do not count in a newer one, which a welcome may name") {
  desired_state word;
  CHECK(word.take(word_of(7, 3, 10, 1)));
  word.enter_epoch(2);
  CHECK(word.seq_in(7) == 0);  // the new instance has sent nothing yet
  CHECK(word.round_in(7, 0) == 3);
  SECTION("within the instance") {
    CHECK(word.take(word_of(7, 3, 1, 2)));
    CHECK(word.seq_in(7) == 1);
    CHECK_FALSE(word.take(word_of(7, 3, 1, 2)));  // once
  }
  SECTION("of another") {
    CHECK(word.take(word_of(8, 1, 1, 2)));
  }
  SECTION("but the older is still not listened to") {
    CHECK_FALSE(word.take(word_of(7, 9, 99, 1)));
  }
  SECTION("and a welcome of the same changes nothing") {
    CHECK(word.take(word_of(7, 3, 5, 2)));
    word.enter_epoch(2);
    CHECK_FALSE(word.take(word_of(7, 3, 4, 2)));
  }
}

TEST_CASE("what was named last is remembered, news or not, and for one connection") {
  desired_state word;
  CHECK(word.take(word_of(7, 3, 10)));
  CHECK_FALSE(word.take(word_of(7, 2, 4)));
  CHECK(word.names(7, 2));
  CHECK_FALSE(word.names(7, 3));
  word.connected();
  CHECK_FALSE(word.names(7, 2));
}

TEST_CASE("a node in no instance has been told nothing, and accepts any message") {
  desired_state word;
  CHECK(word.take(word_of(7, 3, 10)));
  CHECK(word.round_in(0, 0) == 0);
  CHECK(word.seq_in(0) == 0);
  word.forget_instance();
  CHECK(word.take(word_of(7, 1, 2)));
  CHECK(word.round_in(7, 0) == 1);
}

TEST_CASE("a text is told once, and again after another") {
  desired_state word;
  CHECK_FALSE(word.take_text(""));
  CHECK(word.take_text("waiting for 2 nodes"));
  CHECK_FALSE(word.take_text("waiting for 2 nodes"));
  CHECK_FALSE(word.take_text(""));
  CHECK(word.text().empty());
  CHECK(word.take_text("waiting for 2 nodes"));
}

TEST_CASE("a deferred message replaces the one before, and is taken once") {
  desired_state word;
  word.defer(word_of(7, 3, 10));
  word.defer(word_of(7, 4, 11));
  REQUIRE(word.has_deferred());
  CHECK(word.take_deferred().round == 4);
  CHECK_FALSE(word.has_deferred());
  word.defer(word_of(7, 5, 12));
  word.drop_deferred();
  CHECK_FALSE(word.has_deferred());
}

TEST_CASE("what is left of a wait is said as of now, and no more when it is over") {
  told_wait wait;
  desired word;
  word.left = 600s;
  wait.hear(word, start);
  CHECK(wait.text("waiting; here: a", start) == "waiting, 10 min left; here: a");
  CHECK(wait.text("waiting; here: a", start + 570s) == "waiting, 30 s left; here: a");
  CHECK(wait.text("waiting; here: a", start + 600s) == "waiting; here: a");
}

TEST_CASE("missing nodes are named until the next message, whatever that wants") {
  told_wait wait;
  desired word;
  word.gone = {"b was lost", 40s, "silent"};
  wait.hear(word, start);
  CHECK(wait.text("waiting", start + 10s) == "waiting; b was lost 50 s ago: silent");
  CHECK(wait.gone_text(start) == "; b was lost 40 s ago: silent");
  word.phase = desired_phase::run;
  wait.hear(word, start);
  CHECK(wait.gone_text(start).empty());
}

TEST_CASE("a daemon that says nothing of it is an older one") {
  told_wait wait;
  wait.hear({}, start);
  CHECK(wait.text("waiting for 1 of 2 nodes; here: a", start) ==
        "waiting for 1 of 2 nodes; here: a");
}
