#include "launcher/log/log_files.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <poll.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::tests::content_of;
using ddprun::tests::patience;
using ddprun::tests::temporary_folder;

namespace {

struct files_at_work {
  files_at_work() {
    files.on_word([this](const std::string& text) {
      const std::lock_guard lock(mutex);
      words.push_back(text);
    });
    files.on_room([this](log_files::file_id file) {
      const std::lock_guard lock(mutex);
      rooms.push_back(file);
    });
  }

  template <typename Condition>
  void wait_for(Condition is_met) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (true) {
      {
        const std::lock_guard lock(mutex);
        if (is_met()) return;
      }
      REQUIRE(std::chrono::steady_clock::now() < until);
      std::this_thread::yield();
    }
  }

  std::string path(const std::string& name) const { return folder.path + "/" + name; }

  // The files' thread may print more at any moment.
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex);
    return words;
  }

  temporary_folder folder;
  std::mutex mutex;
  std::vector<std::string> words;
  std::vector<log_files::file_id> rooms;
  log_files files{{.queue_bytes = 1000, .late_bytes = 5000}};
};

}  // namespace

TEST_CASE("a log file has what was pushed, in folders that were not there") {
  files_at_work at;
  const std::string path = at.path("a/b/stdout.log");
  const auto file = at.files.open(path);
  at.files.push(file, "first\n");
  at.files.push(file, std::string("bytes \0 \xff\r", 9));
  at.files.close(file);
  CHECK(at.files.finish(patience).none());
  CHECK(content_of(path) == std::string("first\nbytes \0 \xff\r", 15));
  CHECK(at.said().empty());
}

TEST_CASE("a log file that nothing was written to is there, and empty") {
  files_at_work at;
  at.files.close(at.files.open(at.path("stderr.log")));
  at.files.make_folders({at.path("0"), at.path("1/2")});
  CHECK(at.files.finish(patience).none());
  CHECK(std::filesystem::file_size(at.path("stderr.log")) == 0);
  CHECK(std::filesystem::is_directory(at.path("1/2")));
}

TEST_CASE("all that open the same path write to the same log file, until the last has closed it") {
  files_at_work at;
  const auto one = at.files.open(at.path("both"));
  const auto other = at.files.open(at.path("both"));
  CHECK(one == other);
  at.files.push(one, "one\n");
  at.files.close(one);
  at.files.push(other, "other\n");
  at.files.close(other);
  at.files.push(other, "nobody has it open\n");
  CHECK(at.files.finish(patience).none());
  CHECK(content_of(at.path("both")) == "one\nother\n");
}

TEST_CASE("a file that cannot be opened is tried again, and its loss is said at its place") {
  files_at_work at;
  std::ofstream(at.path("taken")) << "a file where a folder should be";
  const auto file = at.files.open(at.path("taken/stdout.log"));
  at.wait_for([&] { return at.words.size() == 1; });
  CHECK(at.said().front() ==
        at.path("taken/stdout.log") +
            " cannot be written: Not a directory; the workers go on, and lines that do not fit "
            "in memory are lost");
  // The file delays no caller.
  CHECK(at.files.push(file, std::string(1500, 'x') + "\n"));
  CHECK(at.files.push(file, "lost\nlost too\n"));
  CHECK(at.files.has_room(file));
  std::filesystem::remove(at.path("taken"));
  at.wait_for([&] { return at.words.size() == 2; });
  CHECK(at.said().back() ==
        "the log files can be written again; 2 lines (14 bytes) are lost, and the files say where");
  at.files.push(file, "after\n");
  at.files.close(file);
  CHECK(at.files.finish(patience).none());
  CHECK(content_of(at.path("taken/stdout.log")) ==
        std::string(1500, 'x') + "\nddprun: 2 lines (14 bytes) are lost here: " +
            at.path("taken/stdout.log") + " could not be written (Not a directory)\nafter\n");
}

// Bytes are pushed as they come, and a push may end anywhere.
TEST_CASE("a line whose text a file has is not counted as lost for its newline") {
  files_at_work at;
  std::ofstream(at.path("taken")) << "a file where a folder should be";
  const auto file = at.files.open(at.path("taken/stdout.log"));
  at.wait_for([&] { return at.words.size() == 1; });
  at.files.push(file, std::string(1500, 'x'));
  at.files.push(file, "\nlost\nlost in");
  at.files.push(file, " part");
  std::filesystem::remove(at.path("taken"));
  at.wait_for([&] { return at.words.size() == 2; });
  CHECK(at.said().back() ==
        "the log files can be written again; 2 lines (17 bytes) are lost, and the files say where");
  at.files.push(file, " of it\n");
  at.files.close(file);
  CHECK(at.files.finish(patience).none());
  CHECK(content_of(at.path("taken/stdout.log")) ==
        std::string(1500, 'x') + "\nddprun: 2 lines (17 bytes) are lost here: " +
            at.path("taken/stdout.log") + " could not be written (Not a directory)\n of it\n");
}

TEST_CASE("a folder for errors that cannot be made is said once") {
  files_at_work at;
  std::ofstream(at.path("taken")) << "x";
  at.files.make_folders({at.path("taken/0"), at.path("taken/1")});
  at.wait_for([&] { return at.words.size() == 1; });
  at.files.make_folders({at.path("taken/0")});
  CHECK(at.files.finish(patience).none());
  CHECK(at.said() == std::vector<std::string>{"the folder " + at.path("taken/0") +
                                              " for workers' errors cannot be created: Not a "
                                              "directory"});
}

// A pipe without a reader stands for a disk that hangs: open() does not return.
TEST_CASE("a disk that hangs makes writers wait, has a reserve, and is not waited for") {
  files_at_work at;
  REQUIRE(::mkfifo(at.path("hangs").c_str(), 0600) == 0);
  const auto file = at.files.open(at.path("hangs"));
  CHECK(at.files.push(file, std::string(999, 'x')));
  CHECK_FALSE(at.files.push(file, "x"));
  CHECK_FALSE(at.files.has_room(file));
  CHECK(at.files.push_late(file, std::string(4000, 'y')));
  CHECK(at.said().empty());
  CHECK(at.files.push_late(file, "y"));
  CHECK_FALSE(at.files.push_late(file, "\n" + std::string(1999, 'z') + "\n"));
  CHECK_FALSE(at.files.push_late(file, "lost, as a line was before it\n"));
  CHECK(at.said() ==
        std::vector<std::string>{
            at.path("hangs") +
            " cannot be written as fast as workers print: 5001 bytes are queued, further lines "
            "are dropped until it catches up"});
  SECTION("it goes on") {
    const unique_fd reader(::open(at.path("hangs").c_str(), O_RDONLY | O_CLOEXEC));
    at.wait_for([&] { return at.rooms == std::vector<log_files::file_id>{file}; });
    CHECK(at.files.has_room(file));
    at.wait_for([&] { return at.words.size() == 2; });
    CHECK(at.said().back() == "2 lines (2030 bytes) of " + at.path("hangs") +
                                  " are lost, as it was written more slowly than they came; the "
                                  "file says where");
    CHECK(at.files.push_late(file, "after\n"));
    at.files.close(file);
    CHECK(at.files.finish(patience).none());
    std::string text(10'000, '\0');
    text.resize(static_cast<std::size_t>(::read(reader.get(), text.data(), text.size())));
    CHECK(text == std::string(1000, 'x') + std::string(4001, 'y') +
                      "\nddprun: 2 lines (2030 bytes) are lost here: " + at.path("hangs") +
                      " was written more slowly than they came\nafter\n");
  }
  SECTION("it hangs for good") {
    CHECK(at.files.finish(std::chrono::milliseconds(10)).bytes == 7032);
    // The thread was left behind; now it ends.
    const unique_fd reader(::open(at.path("hangs").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
}

// Here, a pipe is never written faster than it is read, because each read follows a push.
TEST_CASE("a file that floods holds up no other") {
  files_at_work at;
  REQUIRE(::mkfifo(at.path("flood").c_str(), 0600) == 0);
  const unique_fd reader(::open(at.path("flood").c_str(), O_RDWR | O_CLOEXEC));
  const auto flood = at.files.open(at.path("flood"));
  std::string chunk(256 * 1024, 'x');
  at.files.push(flood, chunk);
  const auto quiet = at.files.open(at.path("quiet"));
  at.files.push(quiet, "word\n");
  int reads = 0;
  for (; reads < 1000 && content_of(at.path("quiet")).empty(); ++reads) {
    at.files.push(flood, chunk);
    for (std::size_t left = chunk.size(); left > 0;) {
      const auto count = ::read(reader.get(), chunk.data(), left);
      REQUIRE(count > 0);
      left -= static_cast<std::size_t>(count);
    }
  }
  CHECK(reads < 1000);
  at.files.close(flood);
  // There is no reader left for the rest.
  at.files.finish(std::chrono::milliseconds(0));
}

TEST_CASE("a file that cannot be written is given up when it has no writer any more") {
  files_at_work at;
  log_files files({.queue_bytes = 1000, .patience = std::chrono::milliseconds(0)});
  std::ofstream(at.path("taken")) << "x";
  const auto file = files.open(at.path("taken/0"));
  files.push(file, "a line\n");
  files.close(file);
  CHECK(files.finish(patience).lines == 1);
}

TEST_CASE("of a file that is given up each line is counted") {
  files_at_work at;
  std::ofstream(at.path("taken")) << "x";
  const auto file = at.files.open(at.path("taken/0"));
  at.wait_for([&] { return at.words.size() == 1; });
  at.files.push(file, std::string(1500, 'x') + "\n");
  at.files.push(file, "lost\nin part");
  CHECK(at.files.finish(patience).lines == 3);
}

TEST_CASE("a file that cannot be written is not waited for at the end") {
  files_at_work at;
  log_files files({.queue_bytes = 1000, .patience = std::chrono::hours(1)});
  std::ofstream(at.path("taken")) << "x";
  files.push(files.open(at.path("taken/0")), "a line\n");
  CHECK(files.finish(std::chrono::hours(1)).lines == 1);
}
