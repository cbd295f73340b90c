#include "launcher/report/own_json_line.hpp"

#include "rendezvous/log/own_line.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("a line of ours is read as it was said") {
  for (const note_level level :
       {note_level::debug, note_level::info, note_level::warning, note_level::error}) {
    const std::string line = log::json_line({"ddprun", "node-a", "job1"}, time_style::iso,
                                            log::wall_clock(), level, 7, "failed\n  | rank 3");
    const auto read = read_own_json_line(line);
    REQUIRE(read);
    CHECK(read->level == level);
    CHECK(read->round == 7);
    CHECK(read->message == "failed");
    CHECK(read->lines == std::vector<std::string>{"rank 3"});
  }
}

TEST_CASE("a line of another program is none of ours") {
  CHECK_FALSE(read_own_json_line(R"({"program":"train","message":"x"})"));
  CHECK_FALSE(read_own_json_line(R"({"program":"ddprun"})"));
  CHECK_FALSE(read_own_json_line("[node-a:0] text"));
  const auto odd = read_own_json_line(R"({"program":"ddprun","message":"x","level":5,"round":-1})");
  REQUIRE(odd);
  CHECK(odd->level == note_level::info);
  CHECK(odd->round == 0);
}
