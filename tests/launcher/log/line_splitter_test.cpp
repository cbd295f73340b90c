#include "launcher/log/line_splitter.hpp"

#include "tests/support/catch.hpp"

#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

using lines = std::vector<std::string>;

// The lines of `bytes`, fed in pieces of `piece` bytes.
lines split(const std::string& bytes, std::size_t piece, std::size_t limit = 100) {
  lines result;
  line_splitter splitter(limit, [&](std::string_view line) { result.emplace_back(line); });
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    splitter.feed(std::string_view(bytes).substr(at, piece));
  }
  splitter.finish();
  return result;
}

}  // namespace

TEST_CASE("bytes come out as the same whole lines, however they came in") {
  const std::string bytes = "first\n\n\nsecond \xff\xfe\x80 not UTF-8\nwith return\r\n\r\n" +
                            std::string("a\0b\n", 4) +
                            " 10%|#\r 20%|##\r\r 30%|###\rlast, no newline";
  const lines expected = {"first\n",
                          "\n",
                          "\n",
                          "second \xff\xfe\x80 not UTF-8\n",
                          "with return\r\n",
                          "\r\n",
                          std::string("a\0b\n", 4),
                          " 10%|#\n",
                          " 20%|##\n",
                          " 30%|###\n",
                          "last, no newline\n"};
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    CHECK(split(bytes, piece) == expected);
  }
}

TEST_CASE("a line longer than the limit comes in pieces, and no byte is lost") {
  const std::string twelve = "123456789012";
  for (std::size_t piece = 1; piece <= 14; ++piece) {
    CHECK(split(twelve + "\nx\n", piece, 5) == lines{"12345\n", "67890\n", "12\n", "x\n"});
    // Exactly the limit, once and twice: no empty line behind it.
    CHECK(split("12345\n1234567890\n", piece, 5) == lines{"12345\n", "12345\n", "67890\n"});
    CHECK(split("12345\r\n", piece, 5) == lines{"12345\r\n"});
  }
}

TEST_CASE("a stream that ends at a line, or never began, ends without one more") {
  CHECK(split("", 1).empty());
  CHECK(split("a\n", 1) == lines{"a\n"});
  CHECK(split("a\r", 1) == lines{"a\n"});
  CHECK(split("\r", 1).empty());
}
