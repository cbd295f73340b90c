#include "rendezvous/base/utf8.hpp"

#include "tests/support/catch.hpp"

#include <string>

using namespace ddprun;

TEST_CASE("the beginning of a character at the end is told from all else") {
  using ddprun::without_begun;
  CHECK(without_begun("a\xE2\x82") == "a");
  CHECK(without_begun("a\xE2\x82\xAC") == "a\xE2\x82\xAC");
  CHECK(without_begun("\xF0\x9F\x98") == "");
  CHECK(without_begun("\xF0\x9F\x98\x80") == "\xF0\x9F\x98\x80");
  CHECK(without_begun("a\xC3") == "a");
  // These bytes begin no character that could be continued.
  CHECK(without_begun("a\xFF") == "a\xFF");
  CHECK(without_begun("a\x80\x80\x80\x80") == "a\x80\x80\x80\x80");
  CHECK(without_begun("") == "");
}

TEST_CASE("invalid bytes become replacement characters and valid ones stay") {
  const std::string euro = "\xE2\x82\xAC";
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(to_valid_utf8("plain") == "plain");
  CHECK(to_valid_utf8("a" + euro + "\xF0\x9F\x98\x80") == "a" + euro + "\xF0\x9F\x98\x80");
  CHECK(to_valid_utf8("\xFF") == bad);
  CHECK(to_valid_utf8("\xE2\x82x") == bad + bad + "x");
  CHECK(to_valid_utf8("\xC0\xAF") == bad + bad);                      // overlong
  CHECK(to_valid_utf8("\xED\xA0\x80") == bad + bad + bad);            // surrogate
  CHECK(to_valid_utf8("\xF4\x90\x80\x80") == bad + bad + bad + bad);  // over U+10FFFF
  CHECK(to_valid_utf8(euro.substr(0, 2)) == bad + bad);               // cut short
  CHECK(is_valid_utf8(euro));
  CHECK_FALSE(is_valid_utf8(euro.substr(1)));
}

TEST_CASE("text is cut at the edge of a character") {
  const std::string text =
      "a\xE2\x82\xAC"
      "b";
  CHECK(first_of(text, 9) == text);
  CHECK(first_of(text, 4) == "a\xE2\x82\xAC");
  CHECK(first_of(text, 3) == "a");
  CHECK(first_of(text, 0) == "");
  CHECK(last_of(text, 4) ==
        "\xE2\x82\xAC"
        "b");
  CHECK(last_of(text, 3) == "b");
  CHECK(last_of(text, 0) == "");
}
