#include "rendezvous/base/printable_text.hpp"

#include "tests/support/catch.hpp"

#include <utility>

using namespace ddprun;

TEST_CASE("control characters of each kind are known, and no others") {
  for (const std::string_view text :
       {"a\nb", "\x1b[1m", "\t", "\x7f", "a\xC2\x85", "\xC2\x9B", "\r", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xE2\x80\xAA", "a\xE2\x80\xAE", "\xE2\x81\xA6", "\xE2\x81\xA9"})
    CHECK(has_control_characters(text));
  CHECK(has_control_characters(std::string_view("a\0b", 3)));
  for (const std::string_view text :
       {"", "node-a.example", "a b", "\xC2\xA0", "\xC3\xA9", "\xE2\x82\xAC", "\xE2\x80\xA7",
        "\xE2\x80\xAF", "\xE2\x81\xA5", "\xE2\x81\xAA", "\xE2\x80"})
    CHECK_FALSE(has_control_characters(text));
}

TEST_CASE("words of others stay in their line, without sequences of a terminal") {
  CHECK(in_one_line("rank 1 failed") == "rank 1 failed");
  CHECK(in_one_line("first\nddprun node-b 10:00: forged") == "first ddprun node-b 10:00: forged");
  CHECK(in_one_line("a\x1b[2J\x1b[31mb\r\tc\x07") == "ab  c ");
  CHECK(in_one_line("caf\xC3\xA9\xC2\x9B"
                    "31m") == "caf\xC3\xA9 31m");
  CHECK(in_one_line("\x1b[") == "");
  CHECK(in_one_line("rank 1 \xE2\x80\xAE"
                    "deliaf\xE2\x80\xA9x") == "rank 1  deliaf x");
}

TEST_CASE("text that is fit as it came is not copied") {
  std::string line(100, 'x');
  std::string lines = line + "\n\t" + line;
  for (const bool is_line : {true, false}) {
    std::string& text = is_line ? line : lines;
    const void* const bytes = text.data();
    const std::string shown = is_line ? in_one_line(std::move(text)) : in_lines(std::move(text));
    CHECK(shown.data() == bytes);
  }
}

TEST_CASE("text of several lines keeps them, and nothing else of its control characters") {
  CHECK(in_lines("Traceback:\n\tf()\r\n\x1b[1mValueError\x1b[0m\x01\n") ==
        "Traceback:\n\tf() \nValueError \n");
  const std::string once = in_lines("a\x1b\x1b[[1mb\x1b");
  CHECK(in_lines(once) == once);
}
