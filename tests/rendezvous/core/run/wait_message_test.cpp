// The message to all who wait, alone.
#include "rendezvous/core/run/wait_message.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;
using namespace std::chrono_literals;

TEST_CASE("a notice is built once for all who wait, until the reason changes") {
  const auto message = std::make_shared<const daemon_message>(ack{1});
  constexpr time_point now{1000s};
  wait_message notice;
  CHECK(notice.message_after(0, now) == nullptr);
  notice.build(5, now, message);
  CHECK(notice.message_after(0, now) == message);
  CHECK(notice.message_after(4, now) == message);
  CHECK(notice.message_after(5, now) == nullptr);

  notice.change();
  CHECK(notice.message_after(0, now) == nullptr);
  notice.build(6, now, message);
  CHECK(notice.message_after(5, now) == message);
  // What it says of the time that is left would be wrong.
  CHECK(notice.message_after(5, now + 1s) == message);
  CHECK(notice.message_after(5, now + 1001ms) == nullptr);
}

TEST_CASE("a changed reason is news to who waits, and to nobody else") {
  wait_message notice;
  const std::uint64_t edition = notice.edition();
  CHECK(edition != 0);
  CHECK_FALSE(notice.is_news_after(edition));
  notice.change();
  CHECK(notice.is_news_after(edition));
  CHECK_FALSE(notice.is_news_after(0));
  CHECK_FALSE(notice.is_news_after(notice.edition()));
}
