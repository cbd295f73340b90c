#include "launcher/log/bar_thinner.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::launcher;
using namespace std::chrono_literals;

namespace {

struct thinned_bars {
  void feed(std::string_view bytes) { file += thinner.feed(bytes, now); }
  void pass(std::chrono::milliseconds time) {
    now += time;
    if (thinner.due() && *thinner.due() <= now) file += thinner.take_held();
  }

  std::string file;
  bar_thinner::time_point now{1h};
  bar_thinner thinner;
};

// The bytes of the file, from `bytes` fed in pieces within one moment.
std::string thin(const std::string& bytes, std::size_t piece) {
  thinned_bars one;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    one.feed(std::string_view(bytes).substr(at, piece));
  one.file += one.thinner.finish();
  return one.file;
}

}  // namespace

TEST_CASE("a file has what is no progress bar as it is, at once") {
  thinned_bars one;
  one.feed("a\nno end");
  CHECK(one.file == "a\nno end");
  const std::string bytes = "a\n\nb\r\n\r\n\r\r\nc \xff\xfe\nlast";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    CHECK(thin(bytes, piece) == bytes);
  }
}

TEST_CASE("of the states that come in one moment a file has the newest") {
  const std::string bytes = "begin\n10%\r20%\r30%\r\r40%\nnext\n\r1%\r2%\r\nlast\n5%\r6%\r7%\r";
  const std::string expected = "begin\n10%\r\r40%\nnext\n\r2%\r\nlast\n5%\r7%\r";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    CHECK(thin(bytes, piece) == expected);
  }
}

TEST_CASE("a file has ten states of a second") {
  thinned_bars one;
  for (int percent = 0; percent < 1000; ++percent) {
    one.feed("\r" + std::to_string(percent));
    one.pass(1ms);
  }
  CHECK(one.file == "\r99\r199\r299\r399\r499\r599\r699\r799\r899\r999");
  one.feed(" done");
  CHECK(one.file.ends_with("\r999 done"));
  one.feed("\r1000");
  one.feed("\n");
  CHECK(one.file.ends_with("\r999 done\r1000\n"));
  CHECK_FALSE(one.thinner.due());
}

TEST_CASE("bytes that are no text are never thinned") {
  const std::string binary = std::string("\0a\rb\rc\r\r\rd", 10);
  for (std::size_t piece = 1; piece <= binary.size(); ++piece)
    CHECK(thin(binary, piece) == binary);
  // From the first NUL on.
  CHECK(thin(std::string("a\rb\rc\r\0d\re\rf", 13), 100) == std::string("a\rb\rc\r\0d\re\rf", 13));
}

TEST_CASE("what is too long for a bar's state is none") {
  thinned_bars one;
  const std::string text(bar_thinner::state_bytes_max, 'x');
  one.feed("\r" + text);
  CHECK(one.file.empty());
  one.feed("y");
  CHECK(one.file == "\r" + text + "y");
}
