#include "launcher/warm/site_zip.hpp"

#include "launcher/warm/memory_file.hpp"
#include "tests/support/catch.hpp"

#include <fstream>
#include <sstream>

using namespace ddprun;
using namespace ddprun::launcher::warm;

TEST_CASE("a zip has each file as it is, its sum, and a directory at its end") {
  const std::string zip = zip_of({{"a.py", "123456789"}});
  using namespace std::string_literals;
  // CRC-32's check value.
  const std::string head =
      "\x0a\0\0\0\0\0\0\0\x21\0\x26\x39\xf4\xcb\x09\0\0\0\x09\0\0\0\x04\0\0\0"s;
  const std::string file = "PK\x03\x04" + head + "a.py123456789";
  const std::string row = "PK\x01\x02\x14\0"s + head + std::string(10, '\0') + "\0\0\0\0a.py"s;
  const std::string end = "PK\x05\x06\0\0\0\0\x01\0\x01\0\x32\0\0\0\x2b\0\0\0\0\0"s;
  CHECK(zip == file + row + end);
}

TEST_CASE("the folder that is first in PYTHONPATH leaves the others behind it") {
  using entries = std::vector<std::string>;
  CHECK(with_site_zip({"A=1", "PYTHONPATH=/x:/y", "B=2"}, "/z") ==
        entries{"A=1", "PYTHONPATH=/z:/x:/y", "B=2"});
  CHECK(with_site_zip({"A=1"}, "/z") == entries{"A=1", "PYTHONPATH=/z"});
  // An empty part would mean the current folder.
  CHECK(with_site_zip({"PYTHONPATH="}, "/z") == entries{"PYTHONPATH=/z:/z"});
}

TEST_CASE("others open a file of memory by its path") {
  const auto file = make_memory_file("test", "some words");
  REQUIRE(file.has_value());
  CHECK(size_of(*file) == 10);
  std::ifstream opened(path_for_others(*file));
  std::ostringstream text;
  text << opened.rdbuf();
  CHECK(text.str() == "some words");
}

TEST_CASE("any text is a literal of Python") {
  CHECK(python_literal("a'\n") == "__import__('os').fsdecode(bytes.fromhex('61270a'))");
}
