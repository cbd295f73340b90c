#include "launcher/agent/file_reader.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/stat.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

struct reader_at_work {
  tests::temporary_folder folder;
  boost::asio::io_context context;
  file_reader reader{context.get_executor()};

  std::string path(const std::string& name) const { return folder.path + "/" + name; }
  std::string read(const std::string& name, std::size_t bytes_max, bool is_removed = false) {
    std::optional<std::string> found;
    reader.read({path(name), bytes_max, is_removed, std::chrono::minutes(1)},
                [&](const std::string& content) { found = content; });
    context.restart();
    context.run();
    return found.value_or("never");
  }
};

}  // namespace

TEST_CASE("a small file is read, and removed where that is asked for") {
  reader_at_work at;
  std::ofstream(at.path("a")) << "content";
  CHECK(at.read("a", 100) == "content");
  CHECK(at.read("a", 7, true) == "content");
  CHECK_FALSE(std::filesystem::exists(at.path("a")));
}

TEST_CASE("what is no small file is empty, and nothing waits for it") {
  reader_at_work at;
  CHECK(at.read("none", 100).empty());
  std::ofstream(at.path("large")) << "content";
  CHECK(at.read("large", 6).empty());
  REQUIRE(mkfifo(at.path("pipe").c_str(), 0600) == 0);
  CHECK(at.read("pipe", 100).empty());
  CHECK(at.read(".", 100).empty());
}

TEST_CASE("a disk that hangs is waited for until the limit") {
  reader_at_work at;
  std::ofstream(at.path("a")) << "content";
  int calls = 0;
  at.reader.read({at.path("a"), 100, false, std::chrono::milliseconds(0)},
                 [&](const std::string&) { ++calls; });
  at.context.run();
  CHECK(calls == 1);
}

TEST_CASE("a reader that is gone calls nothing back") {
  reader_at_work at;
  std::ofstream(at.path("a")) << "content";
  int calls = 0;
  {
    file_reader other(at.context.get_executor());
    other.read({at.path("a"), 100}, [&](const std::string&) { ++calls; });
  }
  at.context.run();
  CHECK(calls == 0);
}
