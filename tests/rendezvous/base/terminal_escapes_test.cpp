#include "rendezvous/base/terminal_escapes.hpp"

#include "tests/support/catch.hpp"

using ddprun::without_cursor_moves;

TEST_CASE("colours and the clearing of a line stay, what leaves the line does not") {
  CHECK(without_cursor_moves("plain \xff\r") == "plain \xff\r");
  CHECK(without_cursor_moves("\x1b[1;31mred\x1b[0m\x1b[m\x1b[K\x1b[2K") ==
        "\x1b[1;31mred\x1b[0m\x1b[m\x1b[K\x1b[2K");
  CHECK(without_cursor_moves("a\x1b[Ab\x1b[12;3Hc\x1b[2Jd\x1b[sd\x1b[ue") == "abcdde");
  CHECK(without_cursor_moves("\x1b[?25l\x1b[?1049h\x1b"
                             "7\x1b"
                             "8\x1b"
                             "cx\x1b[>4;1m") == "x");
  // A sequence that does not end in this text has no effect there.
  CHECK(without_cursor_moves("a\x1b") == "a");
  CHECK(without_cursor_moves("a\x1b[12") == "a");
}

TEST_CASE("of a coloured text the text is left") {
  CHECK(ddprun::without_escapes("  File \x1b[35m\"a.py\"\x1b[0m, line \x1b[35m3\x1b[0m") ==
        "  File \"a.py\", line 3");
  CHECK(ddprun::without_escapes("\x1b[1;35mValueError\x1b[0m: \x1b[35mno\x1b[0m\n") ==
        "ValueError: no\n");
  CHECK(ddprun::without_escapes("plain \xff\r\n") == "plain \xff\r\n");
}
