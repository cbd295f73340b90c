#include "launcher/log/log_mux.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"
#include "tests/support/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ddprun;
using namespace ddprun::launcher;
using ddprun::tests::content_of;
using ddprun::tests::patience;
using ddprun::tests::temporary_folder;

namespace {

// A mux with a writer into a pipe that only the test reads.
struct mux_at_work {
  explicit mux_at_work(std::size_t late_bytes = 8 * 1024 * 1024)
      : out({reader.write.get(), reader.write.get(), 1000, late_bytes}),
        mux(io.get_executor(), out, files) {
    ::fcntl(reader.read.get(), F_SETFL, O_NONBLOCK);
  }

  struct feed {
    unique_fd pipe;
    bool floods = false;  // brings more as soon as it is read
    std::string tapped;
    bool ended = false;
    log::output_loss lost;
    log_mux::source_id id = 0;
  };

  std::shared_ptr<feed> add(const std::string& prefix) { return add(log_route{.prefix = prefix}); }
  std::shared_ptr<feed> add(const log_route& route) {
    auto ends = *make_pipe();
    const auto made = std::make_shared<feed>();
    made->pipe = std::move(ends.write);
    ::fcntl(made->pipe.get(), F_SETFL, O_NONBLOCK);
    made->id = mux.add({std::move(ends.read), route, log::output_stream::output,
                        [made](std::string_view bytes) {
                          if (made->floods) return fill(*made);
                          made->tapped += bytes;
                        },
                        [made](const log::output_loss& lost) {
                          made->ended = true;
                          made->lost = lost;
                        }});
    return made;
  }

  // Fills the pipe.
  static void fill(const feed& to) {
    const std::string line = std::string(99, 'x') + "\n";
    while (::write(to.pipe.get(), line.data(), line.size()) > 0) {
    }
  }

  void run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      io.restart();
      io.run_one_for(std::chrono::milliseconds(5));
    }
  }

  // What is in the pipe now.
  std::string read() {
    std::string text(65536, '\0');
    const auto count = ::read(reader.read.get(), text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }

  // Adds output until a source has to wait for the reader.
  std::shared_ptr<feed> stall() {
    const auto flood = add("[flood] ");
    run_until([&] {
      fill(*flood);
      return mux.waits(flood->id);
    });
    return flood;
  }

  boost::asio::io_context io{1};
  pipe_ends reader = *make_pipe();
  log::writer out;
  log_files files;
  log_mux mux;
};

}  // namespace

TEST_CASE("floods share a slow reader, and a quiet source is heard among them") {
  mux_at_work at;
  constexpr int floods = 8;
  std::vector<std::shared_ptr<mux_at_work::feed>> feeds;
  for (int index = 0; index < floods; ++index) {
    feeds.push_back(at.add("[" + std::to_string(index) + "] "));
    feeds.back()->floods = true;
    at.fill(*feeds.back());
  }
  const auto quiet = at.add("[quiet] ");
  std::map<std::string, int> lines;
  std::string text;
  int all = 0;
  at.run_until([&] {
    if (all == 20'000) REQUIRE(::write(quiet->pipe.get(), "word\n", 5) == 5);
    text += at.read();
    for (auto end = text.find('\n'); end != std::string::npos && all < 100'000;
         end = text.find('\n')) {
      ++lines[text.substr(0, text.find(']') + 1)];
      ++all;
      text.erase(0, end + 1);
      if (all == 20'000) break;
    }
    return all >= 100'000;
  });
  for (int index = 0; index < floods; ++index) {
    CAPTURE(index);
    CHECK(lines["[" + std::to_string(index) + "]"] > 100'000 / floods * 4 / 5);
  }
  CHECK(lines["[quiet]"] == 1);
}

TEST_CASE("a source whose worker has ended is read to its end though its bytes are not taken") {
  mux_at_work at;
  const auto flood = at.stall();
  const auto failed = at.add("[failed] ");
  REQUIRE(::write(failed->pipe.get(), "reason\n", 7) == 7);
  failed->pipe.reset();
  at.run_until([&] { return at.mux.waits(failed->id); });
  CHECK(failed->tapped.empty());
  CHECK(at.mux.waited(failed->id) >= std::chrono::seconds(0));
  at.mux.hurry(failed->id);
  at.run_until([&] { return failed->ended; });
  CHECK(failed->tapped == "reason\n");
  CHECK(failed->lost.none());
  std::string text;
  at.run_until([&] { return (text += at.read()).find("[failed] reason\n") != std::string::npos; });
}

TEST_CASE("what is in a released source's pipe is handed on, even if its other end is still open") {
  mux_at_work at;
  const auto flood = at.stall();
  const auto held = at.add("[held] ");
  REQUIRE(::write(held->pipe.get(), "one\ntwo", 7) == 7);
  at.run_until([&] { return at.mux.waits(held->id); });
  CHECK(at.mux.release(held->id).none());
  CHECK(held->tapped == "one\ntwo");
  CHECK(at.mux.size() == 1);
  pollfd other_end{held->pipe.get(), 0, 0};
  CHECK(::poll(&other_end, 1, 0) == 1);  // nobody reads it any more
  std::string text;
  at.run_until(
      [&] { return (text += at.read()).find("[held] one\n[held] two\n") != std::string::npos; });
  CHECK(!held->ended);
}

TEST_CASE("lines beyond the reserve are counted, and their tap sees them") {
  mux_at_work at(0);
  const auto flood = at.stall();
  const auto failed = at.add("[a] ");
  REQUIRE(::write(failed->pipe.get(), "one\ntwo\nthree", 13) == 13);
  failed->pipe.reset();
  at.mux.hurry(failed->id);
  at.run_until([&] { return failed->ended; });
  CHECK(failed->tapped == "one\ntwo\nthree");
  CHECK(failed->lost.describe() == "3 lines (26 bytes)");
}

TEST_CASE("a route leads bytes to a file, lines to ours, and some lines to a second file") {
  mux_at_work at;
  const temporary_folder folder;
  const auto name = [&](const char* of) { return folder.path + "/" + of; };
  log_route route{.prefix = "[a:0] "};
  SECTION("shown") {}
  SECTION("in files only") {
    route.is_shown = false;
  }
  route.file = name("stdout.log");
  route.matches_file = name("filtered.log");
  route.needles = {"apple", "pear"};
  const auto from = at.add(route);
  const std::string text = "an apple\nno fruit\r\nlast pear";
  REQUIRE(::write(from->pipe.get(), text.data(), text.size()) > 0);
  from->pipe.reset();
  at.run_until([&] { return from->ended; });
  CHECK(from->tapped == text);
  CHECK(at.files.finish(patience).none());
  CHECK(at.out.finish(patience));
  CHECK(content_of(name("stdout.log")) == text);
  CHECK(content_of(name("filtered.log")) == "[a:0] an apple\n[a:0] last pear\n");
  CHECK(at.read() == (route.is_shown ? "[a:0] an apple\n[a:0] no fruit\r\n[a:0] last pear\n" : ""));
}

TEST_CASE("a line without an end is shown, and the next writer does not write into it") {
  mux_at_work at;
  const auto asks = at.add("[asks] ");
  REQUIRE(::write(asks->pipe.get(), "one\nname? ", 10) == 10);
  std::string text;
  at.run_until([&] { return (text += at.read()) == "[asks] one\n[asks] name? "; });
  REQUIRE(::write(asks->pipe.get(), "Anna\nage? ", 10) == 10);
  at.run_until([&] { return (text += at.read()).ends_with("name? Anna\n[asks] age? "); });
  const auto other = at.add("[other] ");
  REQUIRE(::write(other->pipe.get(), "word\n", 5) == 5);
  at.run_until([&] { return (text += at.read()).ends_with("age? \n[other] word\n"); });
  REQUIRE(::write(asks->pipe.get(), "7", 1) == 1);
  at.run_until([&] { return (text += at.read()).ends_with("word\n[asks] 7"); });
  asks->pipe.reset();
  at.run_until([&] { return (text += at.read()).ends_with("[asks] 7\n"); });
}

TEST_CASE("a line whose rest waits for the reader is not cut there") {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::optional<mux_at_work> made;
  std::shared_ptr<mux_at_work::feed> slow, flood;
  // Where the machine is slow the beginning may be due before the reader is held up: once more.
  for (bool is_shown = true; is_shown;) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    const auto due = std::chrono::steady_clock::now() + open_line_delay;
    made.emplace();
    slow = made->add("[slow] ");
    REQUIRE(::write(slow->pipe.get(), "beginning, ", 11) == 11);
    made->run_until([&] { return !slow->tapped.empty(); });
    flood = made->stall();
    is_shown = std::chrono::steady_clock::now() >= due;
  }
  mux_at_work& at = *made;
  REQUIRE(::write(slow->pipe.get(), "end\n", 4) == 4);
  at.run_until([&] { return at.mux.waits(slow->id); });
  const auto passed = std::chrono::steady_clock::now() + 2 * open_line_delay;
  at.run_until([&] { return std::chrono::steady_clock::now() > passed; });
  std::string text;
  at.run_until([&] { return (text += at.read()).ends_with("end\n"); });
  CHECK(text.ends_with("\n[slow] beginning, end\n"));
}

TEST_CASE("a progress bar's newest state is shown and filed, and its last one") {
  mux_at_work at;
  const temporary_folder folder;
  log_route route{.prefix = "[a:0] ", .prefix_color = color_of_rank(0)};
  route.file = folder.path + "/stdout.log";
  const auto from = at.add(route);
  REQUIRE(::write(from->pipe.get(), "\r10%\r20%\r30%", 12) == 12);
  const std::string prefix = "\x1b[36m[a:0] \x1b[0m";
  std::string text;
  at.run_until([&] { return (text += at.read()) == prefix + "30%\n"; });
  at.run_until([&] { return content_of(route.file) == "\r30%"; });
  REQUIRE(::write(from->pipe.get(), "\r40%\r50%\r\n\r60%\r70%\r", 19) == 19);
  from->pipe.reset();
  at.run_until([&] { return from->ended; });
  CHECK(at.out.finish(patience));
  CHECK(at.files.finish(patience).none());
  text += at.read();
  CHECK(text == prefix + "30%\n" + prefix + "50%\r\n" + prefix + "70%\n");
  // Files never have it.
  CHECK(content_of(route.file) == "\r30%\r50%\r\n\r70%\r");
}

// A pipe without a reader stands for a disk that hangs.
TEST_CASE("a source waits for its file, and the others do not wait with it") {
  mux_at_work at;
  const temporary_folder folder;
  const std::string path = folder.path + "/hangs";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  log_route route{.prefix = "[hangs] "};
  route.file = path;
  SECTION("shown") {}
  SECTION("in the file only") {
    route.is_shown = false;
  }
  const auto hangs = at.add(route);
  at.run_until([&] {
    at.fill(*hangs);
    at.read();
    // Before the file's queue is full, it may wait for the reader.
    return hangs->tapped.size() >= log_files::options{}.queue_bytes && at.mux.waits(hangs->id);
  });
  const auto other = at.add("[other] ");
  REQUIRE(::write(other->pipe.get(), "word\n", 5) == 5);
  std::string text;
  at.run_until([&] {
    text += at.read();
    return text.ends_with("[other] word\n");
  });
  CHECK(at.mux.waits(hangs->id));
  const unique_fd disk(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  hangs->pipe.reset();
  at.run_until([&] {
    std::string bytes(65536, '\0');
    [[maybe_unused]] const auto count = ::read(disk.get(), bytes.data(), bytes.size());
    at.read();
    return hangs->ended;
  });
  CHECK(at.mux.waited(hangs->id).count() == 0);  // it is known no more
  CHECK(at.files.finish(std::chrono::milliseconds(0)).bytes <= hangs->tapped.size());
}
