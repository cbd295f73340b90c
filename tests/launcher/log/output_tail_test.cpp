#include "launcher/log/output_tail.hpp"

#include "rendezvous/base/utf8.hpp"
#include "tests/support/catch.hpp"

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("a short tail is all of it") {
  output_tail tail;
  CHECK(tail.text().empty());
  tail.add("one\n");
  tail.add("two");
  CHECK(tail.text() == "one\ntwo");
}

TEST_CASE("a long tail is its last bytes, beginning at a line") {
  output_tail tail;
  std::string all;
  for (int line = 0; line < 2000; ++line) {
    const std::string text = "line " + std::to_string(line) + "\n";
    tail.add(text);
    all += text;
  }
  const std::string text = tail.text();
  CHECK(text.size() <= output_tail_bytes_max);
  CHECK(text.size() > output_tail_bytes_max - 16);
  CHECK(text.starts_with("line "));
  CHECK(all.ends_with(text));
}

TEST_CASE("a tail is valid UTF-8 within the limit, whatever the bytes") {
  for (const std::string& unit : {std::string("\xff"), std::string("\xe2\x82\xac"),
                                  std::string("\xf0\x9f\x98"), std::string("a\xc3")}) {
    for (std::size_t count : {1u, 100u, 4095u, 4096u, 4097u, 20000u}) {
      output_tail tail;
      for (std::size_t done = 0; done < count; ++done)
        tail.add(unit);
      const std::string text = tail.text();
      CHECK(text.size() <= output_tail_bytes_max);
      CHECK(!text.empty());
      CHECK(is_valid_utf8(text));
    }
  }
}

TEST_CASE("one line longer than the limit is cut, not dropped") {
  output_tail tail;
  tail.add(std::string(100'000, 'x'));
  CHECK(tail.text() == std::string(output_tail_bytes_max, 'x'));
}

TEST_CASE("of a progress bar the newest state is kept, and what was said before it") {
  const std::string bytes = "warning: slow\r\n 1%\r 2%\r\r 3%\nnext\r\n\r";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    output_tail tail;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      tail.add(std::string_view(bytes).substr(at, piece));
    CHECK(tail.text() == "warning: slow\r\n 3%\nnext\r\n");
    for (int percent = 0; percent < 10'000; ++percent)
      tail.add("\r" + std::to_string(percent));
    CHECK(tail.text() == "warning: slow\r\n 3%\nnext\r\n9999");
  }
}

// Python 3.13 colours what it writes to a terminal.
TEST_CASE("a traceback that was coloured for a terminal is kept as text") {
  output_tail tail;
  tail.add(
      "  File \x1b[35m\"/data/a.py\"\x1b[0m, line \x1b[35m3\x1b[0m, in \x1b[35mstep\x1b[0m\n"
      "\x1b[1;35mValueError\x1b[0m: \x1b[35mloss is NaN\x1b[0m\n");
  CHECK(tail.text() == "  File \"/data/a.py\", line 3, in step\nValueError: loss is NaN\n");
}
