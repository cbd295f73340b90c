#include "launcher/process/timer_pipe.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/loop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace ddprun;
using namespace ddprun::launcher;

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t ours = 4711;

struct fixture {
  tests::temporary_folder folder;
  boost::asio::io_context context;
  std::vector<std::string> warnings;
  std::vector<workers::expired_timer> expired;

  std::string path(const std::string& name) const { return folder.path + "/" + name; }
  std::unique_ptr<timer_pipe> make(const std::string& wanted) {
    timer_pipe::handlers told;
    told.is_ours = [](std::int64_t process) { return process == ours; };
    told.expired = [this](const workers::expired_timer& one) { expired.push_back(one); };
    told.warn = [this](const std::string& line) { warnings.push_back(line); };
    return std::make_unique<timer_pipe>(
        context.get_executor(), timer_pipe::place{wanted, folder.path, "mark"}, std::move(told));
  }
  bool is_pipe(const std::string& at) const { return fs::is_fifo(fs::symlink_status(at)); }
};

// Writes as PyTorch's client does, which must not block.
void say(const std::string& path, const std::string& text) {
  const int pipe = ::open(path.c_str(), O_WRONLY | O_NONBLOCK);
  REQUIRE(pipe >= 0);
  CHECK(::write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(pipe);
}

std::string request(std::int64_t process, const std::string& scope, double seconds) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return R"({"version": 1, "pid": )" + std::to_string(process) + R"(, "scope_id": ")" + scope +
         R"(", "expiration_time": )" + std::to_string(seconds < 0 ? -1 : now + seconds) +
         R"(, "signal": 9})" + "\n";
}

}  // namespace

TEST_CASE("a timer that is set on the pipe expires, one that is released does not") {
  fixture at;
  const auto pipe = at.make("");
  CHECK(pipe->path() == at.path("watchdog_timer_mark"));
  say(pipe->path(), request(ours, "released", 0.05));
  say(pipe->path(), request(ours, "kept", 0.1));
  say(pipe->path(), request(ours, "released", -1));
  CHECK(tests::run_until(at.context, [&] { return !at.expired.empty(); }));
  REQUIRE(at.expired.size() == 1);
  CHECK(at.expired[0].process == ours);
  CHECK(at.expired[0].scope == "kept");
  CHECK(at.warnings.empty());
}

TEST_CASE("a release that waits in the pipe is heard before its timer expires") {
  fixture at;
  const auto pipe = at.make("");
  say(pipe->path(), request(ours, "a", 0) + request(ours, "b", 0));
  at.context.run_one();  // both are heard
  CHECK(at.expired.empty());
  say(pipe->path(), request(ours, "a", -1));
  CHECK(tests::run_until(at.context, [&] { return !at.expired.empty(); }));
  REQUIRE(at.expired.size() == 1);
  CHECK(at.expired[0].scope == "b");
}

TEST_CASE("what makes no sense on the pipe is one line of its kind, and loses nothing else") {
  fixture at;
  const auto pipe = at.make("");
  for (int turn = 0; turn < 3; ++turn) {
    say(pipe->path(), "garbage\n" + std::string(9000, 'x') + "\n");
    say(pipe->path(), request(ours + 1, "of a stranger", 0.01));
    say(pipe->path(), request(ours + 1, "of a stranger", -1));
  }
  say(pipe->path(), request(ours, "kept", 0.01));
  CHECK(tests::run_until(at.context, [&] { return !at.expired.empty(); }));
  REQUIRE(at.expired.size() == 1);
  CHECK(at.expired[0].scope == "kept");
  std::sort(at.warnings.begin(), at.warnings.end());
  CHECK(
      at.warnings ==
      std::vector<std::string>{
          pipe->path() + ": ignored a line that sets no timer: garbage",
          pipe->path() + ": ignored a timer of process 4712, which is not a worker of this node"});
}

TEST_CASE("timers of workers that have ended are forgotten") {
  fixture at;
  const auto pipe = at.make("");
  say(pipe->path(), request(ours, "old", 0.01));
  tests::run_ready(at.context);
  pipe->forget_timers();
  say(pipe->path(), request(ours, "new", 0.02));
  CHECK(tests::run_until(at.context, [&] { return !at.expired.empty(); }));
  CHECK(at.expired.at(0).scope == "new");
}

TEST_CASE("the pipe has the name that is wanted, this user's alone, and is removed in the end") {
  fixture at;
  for (const char* const before : {"nothing", "a pipe that nobody reads", "an empty file"}) {
    INFO(before);
    const std::string wanted = at.path("wanted");
    if (before == std::string("an empty file")) at.folder.file("wanted", "", 0644);
    if (before[0] == 'a' && before[1] == ' ') REQUIRE(::mkfifo(wanted.c_str(), 0600) == 0);
    auto pipe = at.make(wanted);
    CHECK(pipe->path() == wanted);
    struct stat facts {};
    REQUIRE(::lstat(wanted.c_str(), &facts) == 0);
    CHECK(facts.st_mode == (S_IFIFO | 0600));
    pipe.reset();
    CHECK_FALSE(fs::exists(wanted));
  }
  CHECK(at.warnings.empty());
}

TEST_CASE("a name that is taken stays as it is, and another one is found") {
  fixture at;
  const std::string own = at.path("watchdog_timer_mark");
  const std::string file = at.folder.file("file", "content", 0644);
  for (const std::string& wanted : {file, at.path("none/pipe")}) {
    INFO(wanted);
    at.warnings.clear();
    CHECK(at.make(wanted)->path() == own);
    CHECK_FALSE(fs::exists(own));
    REQUIRE(at.warnings.size() == 1);
    CHECK(at.warnings[0].starts_with("TORCHELASTIC_TIMER_FILE=" + wanted + ": "));
    CHECK(at.warnings[0].ends_with("; the workers' timers are set by " + own));
  }
  CHECK(tests::content_of(file) == "content");
  // Of another agent on this host.
  at.warnings.clear();
  const auto first = at.make(at.path("wanted"));
  const auto second = at.make(at.path("wanted"));
  CHECK(second->path() == own);
  CHECK(at.warnings.at(0).find("another program reads a pipe of that name") != std::string::npos);
  CHECK(at.is_pipe(first->path()));
}

TEST_CASE("where no pipe can be made at all one line says so") {
  fixture at;
  fs::create_directory(at.path("watchdog_timer_mark"));
  for (const std::string& wanted : {std::string(), at.path("none/pipe")}) {
    at.warnings.clear();
    CHECK(at.make(wanted)->path().empty());
    CHECK(at.warnings == std::vector<std::string>{
                             "no timer of torch.distributed.elastic can expire, because no pipe "
                             "can be made: " +
                             at.path("watchdog_timer_mark") + ": something else has that name"});
  }
}

TEST_CASE("a pipe that has come to the place of ours is left alone") {
  fixture at;
  auto pipe = at.make("");
  const std::string path = pipe->path();
  fs::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  pipe.reset();
  CHECK(at.is_pipe(path));
}
