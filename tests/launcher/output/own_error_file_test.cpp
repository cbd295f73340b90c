#include "launcher/output/own_error_file.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace fs = std::filesystem;

namespace {

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("an own error file is replaced as a whole, and leaves no other file") {
  const tests::temporary_folder folder;
  const std::string path = folder.path + "/error.json";
  CHECK(replace_file(path, "first", "mark").empty());
  CHECK(tests::content_of(path) == "first");
  fs::create_hard_link(path, folder.path + "/reader");
  CHECK(replace_file(path, "second", "mark").empty());
  CHECK(tests::content_of(path) == "second");
  CHECK(tests::content_of(folder.path + "/reader") == "first");
  CHECK(files_in(folder.path) == 2);
}

TEST_CASE("an own error file that cannot be replaced is written as it stands") {
  const tests::temporary_folder folder;
  const std::string path = folder.file("error.json", "a longer text than what comes", 0644);
  // As if only this file were mounted: no file can be created beside it.
  fs::create_directory(path + ".mark");
  CHECK(replace_file(path, "new", "mark").empty());
  CHECK(tests::content_of(path) == "new");

  const std::string pipe = folder.path + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(replace_file(pipe, "new", "mark") == "No such device or address");
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  CHECK(replace_file(pipe, "new", "mark").empty());
  char heard[8] = {};
  CHECK(::read(reader, heard, sizeof heard) == 3);
  ::close(reader);
}

TEST_CASE("an own error file that cannot be written is one line, and delays nothing") {
  const tests::temporary_folder folder;
  boost::asio::io_context context;
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& line) { warnings.push_back(line); };
  own_error_file::options values;
  values.mark = "mark";
  values.path = folder.path + "/none/error.json";
  own_error_file file(context.get_executor(), values, warn);
  int ends = 0;
  file.when_written([&] { ++ends; });
  CHECK(ends == 1);  // nothing is being written
  file.write("{}");
  file.when_written([&] { ++ends; });
  CHECK(ends == 1);
  context.run();
  CHECK(ends == 2);
  CHECK(warnings == std::vector<std::string>{"TORCHELASTIC_ERROR_FILE=" + values.path +
                                             ": cannot be written: No such file or directory"});

  // A disk that hangs.
  values.path = folder.path + "/error.json";
  values.limit = std::chrono::milliseconds(0);
  own_error_file slow(context.get_executor(), values, warn);
  slow.write("{}");
  slow.when_written([&] { ++ends; });
  context.restart();
  context.run();
  CHECK(ends == 3);
  CHECK(warnings.size() <= 2);
  // The write goes on in the background; the folder may be removed only after it.
  const auto limit = std::chrono::steady_clock::now() + tests::patience;
  while (!fs::exists(values.path) && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  CHECK(fs::exists(values.path));
}

TEST_CASE("an own error file that was not asked for is not there") {
  boost::asio::io_context context;
  const auto values = own_error_file::wanted({{"TORCHELASTIC_ERROR_FILE", ""}}, "mark");
  own_error_file file(context.get_executor(), values, [](const std::string&) {});
  CHECK_FALSE(file.is_wanted());
  file.write("{}");
  CHECK(context.run() == 0);
  CHECK(own_error_file::wanted({{"TORCHELASTIC_ERROR_FILE", "/a"}}, "mark").path == "/a");
}
