#include "launcher/log/line_splitter.hpp"

#include "tests/support/catch.hpp"

#include <utility>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;
using namespace std::chrono_literals;
using kind = log::line_part::kind;

namespace {

using lines = std::vector<std::string>;

const std::string cut_mark = " [ddprun: this line is too long, and cut here]\n";

// The lines of `bytes`, fed in pieces of `piece` bytes within one moment.
lines split(const std::string& bytes, std::size_t piece, std::size_t limit = 100) {
  lines result;
  line_splitter splitter(limit, [&](const line_splitter::piece& next) {
    CHECK(next.how == kind::opens);
    CHECK(next.text == next.line);
    result.emplace_back(next.text);
  });
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    splitter.feed(std::string_view(bytes).substr(at, piece), {});
  }
  splitter.finish();
  return result;
}

// A stream and a clock. Pieces are recorded as "opens:text", states with a "*".
struct split_story {
  void feed(std::string_view bytes) { splitter.feed(bytes, now); }
  void pass(std::chrono::milliseconds time) {
    now += time;
    if (splitter.due() && *splitter.due() <= now) splitter.hand_on_open();
  }
  lines said() { return std::exchange(pieces, {}); }

  lines pieces, whole;
  line_splitter::time_point now{1h};
  line_splitter splitter{
      20, [this](const line_splitter::piece& next) {
        static constexpr const char* names[] = {"passes", "begins", "opens", "goes_on", "replaces"};
        pieces.push_back(std::string(names[static_cast<int>(next.how)]) +
                         (next.is_state ? "*:" : ":") + std::string(next.text));
        if (!next.line.empty()) whole.emplace_back(next.line);
      }};
};

}  // namespace

TEST_CASE("bytes come out as the same whole lines, however they came in") {
  const std::string bytes = "first\n\n\nsecond \xff\xfe\x80 not UTF-8\nwith return\r\n\r\n" +
                            std::string("a\0b\n", 4) + "last, no newline";
  const lines expected = {"first\n",
                          "\n",
                          "\n",
                          "second \xff\xfe\x80 not UTF-8\n",
                          "with return\r\n",
                          "\r\n",
                          std::string("a\0b\n", 4),
                          "last, no newline\n"};
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    CHECK(split(bytes, piece) == expected);
  }
}

TEST_CASE("of a progress bar the state before a newline comes out, and that before the end") {
  const std::string bytes =
      " 10%|#\r 20%|##\r\r 30%|###\nnext\n\r 1%\r 2%\r\n 5%\r 6%\r\r\n\r\rwords\n 7%\r 8%\r";
  const lines expected = {" 30%|###\n", "next\n", " 2%\r\n", " 6%\r\n", "words\n", " 8%\n"};
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    CHECK(split(bytes, piece) == expected);
  }
}

TEST_CASE("a line longer than the limit is cut, which it says, and no byte is lost") {
  const std::string twelve = "123456789012";
  for (std::size_t piece = 1; piece <= 14; ++piece) {
    CHECK(split(twelve + "\nx\n", piece, 5) ==
          lines{"12345" + cut_mark, "67890" + cut_mark, "12\n", "x\n"});
    // Exactly the limit, once and twice: no empty line follows.
    CHECK(split("12345\n1234567890\n", piece, 5) ==
          lines{"12345\n", "12345" + cut_mark, "67890\n"});
    CHECK(split("12345\r\n", piece, 5) == lines{"12345\r\n"});
    // Valid characters are not cut, invalid bytes are.
    CHECK(split("123\xE2\x82\xAC\n", piece, 5) == lines{"123" + cut_mark, "\xE2\x82\xAC\n"});
    CHECK(split("\xE2\xE2\xE2\n", piece, 1) ==
          lines{"\xE2" + cut_mark, "\xE2" + cut_mark, "\xE2\n"});
  }
}

TEST_CASE("a stream that ends at a line, or never began, ends without one more") {
  CHECK(split("", 1).empty());
  CHECK(split("a\n", 1) == lines{"a\n"});
  CHECK(split("a\r", 1) == lines{"a\n"});
  CHECK(split("\r", 1).empty());
}

TEST_CASE("a line without an end is handed on after a moment, and goes on there") {
  split_story one;
  one.feed("done\nName: ");
  CHECK(one.said() == lines{"opens:done\n"});
  CHECK(one.splitter.due() == one.now + 100ms);
  one.pass(99ms);
  CHECK(one.said().empty());
  one.pass(1ms);
  CHECK(one.said() == lines{"opens:Name: "});
  CHECK_FALSE(one.splitter.due());
  one.feed("A");
  CHECK(one.splitter.due() == one.now + 100ms);
  one.pass(100ms);
  one.feed("nna\nnext");
  CHECK(one.said() == lines{"goes_on:A", "goes_on:nna\n"});
  one.splitter.finish();
  CHECK(one.said() == lines{"opens:next\n"});
  // A reader that searches lines gets complete ones.
  CHECK(one.whole == lines{"done\n", "Name: Anna\n", "next\n"});
}

TEST_CASE("a line that ends in time is never handed on in two") {
  split_story one;
  one.feed("a");
  one.pass(99ms);
  one.feed("b\n");
  CHECK_FALSE(one.splitter.due());
  one.feed("c");
  CHECK(one.splitter.due() == one.now + 100ms);
  CHECK(one.said() == lines{"opens:ab\n"});
}

TEST_CASE("a line that a writer's full buffer has cut waits longer for its rest") {
  line_splitter splitter(10000, [](const auto&) {});
  splitter.feed(std::string(4096, 'x'), {});
  CHECK(splitter.due() == line_splitter::time_point(1s));
  splitter.feed("\nnext", {});
  CHECK(splitter.due() == line_splitter::time_point(100ms));
}

TEST_CASE("a character that has begun waits for its end") {
  split_story one;
  one.feed("5 \xE2\x82");
  one.pass(100ms);
  CHECK(one.said() == lines{"opens:5 "});
  one.feed("\xAC");
  one.pass(100ms);
  CHECK(one.said() == lines{"goes_on:\xE2\x82\xAC"});
  one.feed("\xE2");
  one.pass(100ms);
  CHECK(one.said().empty());
  one.splitter.finish();
  CHECK(one.said() == lines{"goes_on:\xE2\n"});
}

TEST_CASE("of a progress bar the newest state is handed on ten times a second") {
  split_story one;
  for (int percent = 0; percent < 1000; ++percent) {
    one.feed("\r" + std::to_string(percent));
    one.pass(1ms);
  }
  CHECK(one.said() == lines{"opens*:99", "replaces*:199", "replaces*:299", "replaces*:399",
                            "replaces*:499", "replaces*:599", "replaces*:699", "replaces*:799",
                            "replaces*:899", "replaces*:999"});
  one.feed("\r1000\r");
  one.feed("\n");
  CHECK(one.said() == lines{"replaces:1000\r\n"});
  CHECK(one.whole == lines{"1000\r\n"});
}

TEST_CASE("a bar that draws before its carriage return is one, too") {
  split_story one;
  one.feed("10%\r");
  one.pass(100ms);
  CHECK(one.said() == lines{"opens*:10%"});
  one.feed("20%\r");
  one.pass(50ms);
  one.feed("30%\r");
  one.pass(50ms);
  CHECK(one.said() == lines{"replaces*:30%"});
  one.splitter.finish();
  CHECK(one.said() == lines{"goes_on:\n"});
}

TEST_CASE("a line that is open is cut at the limit all the same") {
  split_story one;
  one.feed("0123456789");
  one.pass(100ms);
  one.feed("0123456789x\n");
  CHECK(one.said() == lines{"opens:0123456789", "goes_on:0123456789" + cut_mark, "opens:x\n"});
}
