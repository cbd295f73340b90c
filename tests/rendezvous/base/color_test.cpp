#include "rendezvous/base/color.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;

TEST_CASE("colours are for terminals that have them, unless they are refused") {
  const auto is = [](color_mode mode, bool is_terminal, const environment_map& variables) {
    return is_colored(mode, is_terminal, variables);
  };
  constexpr auto automatic = color_mode::automatic;
  CHECK(is(automatic, true, {}));
  CHECK(is(automatic, true, {{"TERM", "xterm"}, {"NO_COLOR", ""}}));
  CHECK_FALSE(is(automatic, false, {}));
  CHECK_FALSE(is(automatic, true, {{"NO_COLOR", "1"}}));
  CHECK_FALSE(is(automatic, true, {{"TERM", "dumb"}}));
  CHECK(is(color_mode::always, false, {{"NO_COLOR", "1"}, {"TERM", "dumb"}}));
  CHECK_FALSE(is(color_mode::never, true, {}));
}

TEST_CASE("neighbours among ranks have different colours, and none that of a warning") {
  for (std::uint32_t rank = 0; rank < 100; ++rank) {
    CHECK(color_of_rank(rank) != color_of_rank(rank + 1));
    CHECK(color_of_rank(rank) != color::red);
    CHECK(color_of_rank(rank) != color::yellow);
  }
  CHECK(in_color(color::red, "error:") == "\x1b[31merror:\x1b[0m");
}
