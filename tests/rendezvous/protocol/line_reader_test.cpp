#include "rendezvous/protocol/line_reader.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

using ddprun::protocol::line_reader;

namespace {

std::vector<std::string> take_all(line_reader& reader) {
  std::vector<std::string> lines;
  while (const auto line = reader.next())
    lines.emplace_back(*line);
  return lines;
}

}  // namespace

TEST_CASE("lines are the same however the bytes are cut") {
  const std::string stream = "one\ntwo\r\n\nlast\nunfinished";
  const std::vector<std::string> expected = {"one", "two", "", "last"};
  for (std::size_t chunk = 1; chunk <= stream.size(); ++chunk) {
    line_reader reader;
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < stream.size(); at += chunk) {
      reader.append(std::string_view(stream).substr(at, chunk));
      for (auto& line : take_all(reader))
        lines.push_back(line);
    }
    CHECK(lines == expected);
    CHECK(reader.unfinished() == "unfinished");
    CHECK_FALSE(reader.too_long());
  }
}

TEST_CASE("a line may fill the limit with its newline and no more") {
  line_reader exact(8);
  exact.append("1234567\n1234567\n");
  CHECK(take_all(exact) == std::vector<std::string>{"1234567", "1234567"});
  CHECK_FALSE(exact.too_long());

  line_reader over(8);
  over.append("ok\n12345678\nnever read\n");
  CHECK(take_all(over) == std::vector<std::string>{"ok"});
  CHECK(over.too_long());
  CHECK(take_all(over).empty());

  line_reader endless(8);
  endless.append("1234567");
  CHECK(take_all(endless).empty());
  CHECK_FALSE(endless.too_long());
  endless.append("8");
  CHECK(take_all(endless).empty());
  CHECK(endless.too_long());
}
