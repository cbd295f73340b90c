#include "rendezvous/core/messages/rank_ends.hpp"

#include "tests/support/catch.hpp"

#include <chrono>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("stretches that touch and ended alike become one") {
  CHECK(merged({}).empty());
  CHECK(merged({{ending::stopped, 4, 7},
                {ending::secondary, 2, 2},
                {ending::stopped, 0, 1},
                {ending::stopped, 2, 3},
                {ending::secondary, 5, 5}}) == std::vector<ended_ranks>{{ending::secondary, 2, 2},
                                                                        {ending::secondary, 5, 5},
                                                                        {ending::stopped, 0, 7}});
  // A peer may say anything.
  constexpr std::uint32_t most = 0xffffffff;
  CHECK(merged({{ending::lost, 3, most}, {ending::lost, 0, 5}, {ending::lost, most, most}}) ==
        std::vector<ended_ranks>{{ending::lost, 0, most}});
}

TEST_CASE("ends come back as they were written, and nothing else is read as some") {
  const std::vector<ended_ranks> all = {{ending::secondary, 0, 2},
                                        {ending::secondary, 4, 4},
                                        {ending::killed, 7, 7},
                                        {ending::succeeded, 8, 0xffffffff}};
  CHECK(to_texts(all) ==
        std::vector<std::string>{"secondary 0-2,4", "killed 7", "succeeded 8-4294967295"});
  std::vector<ended_ranks> back;
  for (const std::string& text : to_texts(all))
    REQUIRE(read_ended_ranks(text, back));
  CHECK(back == all);
  CHECK(to_texts({}).empty());
  for (const char* const text :
       {"", "secondary", "secondary ", " 3", "died 3", "secondary 3-", "secondary 3-2",
        "secondary -3", "secondary 3 ", "secondary 3-4-5", "secondary 4294967296", "secondary 3,",
        "secondary ,3", "secondary 3,,4", "secondary 3, 4", "secondary 1,3,5,7,9,11,13,15,17"}) {
    INFO(text);
    std::vector<ended_ranks> kept{{ending::lost, 1, 1}};
    CHECK_FALSE(read_ended_ranks(text, kept));
    CHECK(kept == std::vector<ended_ranks>{{ending::lost, 1, 1}});
  }
}

TEST_CASE("what does not fit is left out") {
  std::vector<ended_ranks> parts;
  for (std::uint32_t rank = 0; rank < 1000; rank += 2)
    parts.push_back({ending::killed, rank, rank});
  CHECK(merged(parts).size() == ends_max);
}

TEST_CASE("a stretch has the times of all in it, and a code only where all have the same") {
  const ended_ranks first{ending::secondary, 0, 0, end_times{8200ms, 8200ms}, 1};
  const ended_ranks second{ending::secondary, 1, 1, end_times{8100ms, 8400ms}, 1};
  CHECK(merged({first, second}) ==
        std::vector<ended_ranks>{{ending::secondary, 0, 1, end_times{8100ms, 8400ms}, 1}});
  const ended_ranks other{ending::secondary, 2, 2, end_times{8300ms, 8300ms}, -6};
  CHECK(merged({first, second, other}) ==
        std::vector<ended_ranks>{{ending::secondary, 0, 2, end_times{8100ms, 8400ms}, 0}});
  // Nothing is known about the second one.
  CHECK(merged({first, {ending::secondary, 1, 1}}) ==
        std::vector<ended_ranks>{{ending::secondary, 0, 1}});
}

TEST_CASE("when ranks ended, and with what, comes back as it was written") {
  for (const ended_ranks& one : {ended_ranks{ending::failed, 3, 3, end_times{0ms, 0ms}, 0},
                                 ended_ranks{ending::failed, 3, 3, end_times{8200ms, 8200ms}, 7},
                                 ended_ranks{ending::secondary, 0, 2, end_times{1ms, 99999ms}, -6},
                                 ended_ranks{ending::lost, 0, 2}}) {
    ended_ranks back{one.how, one.first, one.last};
    INFO(detail_text(one));
    CHECK(read_detail(detail_text(one), back));
    CHECK(back == one);
  }
  CHECK(detail_text({ending::secondary, 0, 2, end_times{8200ms, 8400ms}, -6}) ==
        "8200-8400 signal 6");
  CHECK(detail_text({ending::failed, 0, 0, end_times{8200ms, 8200ms}, 1}) == "8200 exit 1");
  for (const char* const text :
       {"x", "-1", "8200-", "8200-8100", "8200 ", "8200 exit", "8200 exit 0", "8200 exit 1 ",
        "8200 exit 70000", "8200 signal -6", "8200 ended 1", "8200 what 1", "99999999999999"}) {
    INFO(text);
    ended_ranks kept{ending::failed, 1, 1, end_times{5ms, 6ms}, 2};
    const ended_ranks before = kept;
    CHECK_FALSE(read_detail(text, kept));
    CHECK(kept == before);
  }
}
