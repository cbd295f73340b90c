// The message to all who wait, alone.
#include "rendezvous/core/run/wait_notice.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::core;

TEST_CASE("a notice is built once for all who wait, until the reason changes") {
  const auto message = std::make_shared<const daemon_message>(answer{1});
  wait_notice notice;
  CHECK(notice.message_after(0) == nullptr);
  notice.build(5, message);
  CHECK(notice.message_after(0) == message);
  CHECK(notice.message_after(4) == message);
  CHECK(notice.message_after(5) == nullptr);

  notice.change();
  CHECK(notice.message_after(0) == nullptr);
  notice.build(6, message);
  CHECK(notice.message_after(5) == message);
}

TEST_CASE("a changed reason is news to who waits, and to nobody else") {
  wait_notice notice;
  const std::uint64_t edition = notice.edition();
  CHECK(edition != 0);
  CHECK_FALSE(notice.is_news_after(edition));
  notice.change();
  CHECK(notice.is_news_after(edition));
  CHECK_FALSE(notice.is_news_after(0));
  CHECK_FALSE(notice.is_news_after(notice.edition()));
}
