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
