#include "rendezvous/log/writer.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/patience.hpp"

#include <condition_variable>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace ddprun;
using ddprun::tests::patience;

namespace {

const std::string disk_is_full =
    "ddprun: standard output cannot be written: No space left on device; trying again, and output "
    "that does not fit in memory is lost\n";

struct two_pipes {
  two_pipes() : output(*make_pipe()), errors(*make_pipe()) {}
  log::writer::options options(std::size_t queue_bytes = 1000) const {
    return {output.write.get(), errors.write.get(), queue_bytes};
  }
  pipe_ends output;
  pipe_ends errors;
};

std::string read_some(const unique_fd& from, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t size = 0;
  while (size < bytes) {
    const auto count = ::read(from.get(), text.data() + size, bytes - size);
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

}  // namespace

TEST_CASE("what is pushed is written to its stream in order") {
  const two_pipes pipes;
  log::writer out(pipes.options());
  out.push(log::output_stream::output, "one\n");
  out.push(log::output_stream::errors, "wrong\n");
  out.push(log::output_stream::output, "two\n");
  CHECK(out.finish(patience));
  CHECK(read_some(pipes.output.read, 8) == "one\ntwo\n");
  CHECK(read_some(pipes.errors.read, 6) == "wrong\n");
}

TEST_CASE("a blocked standard output does not hold up standard error") {
  two_pipes pipes;
  log::writer out(pipes.options());
  // This is more than a pipe holds, so the writer blocks until the pipe is read.
  out.push(log::output_stream::output, std::string(200'000, 'x'));
  out.push(log::output_stream::errors, "still here\n");
  CHECK(read_some(pipes.errors.read, 11) == "still here\n");
  CHECK(!out.finish(std::chrono::milliseconds(0)));
  // Nothing writes any more, so only what is in the pipe will arrive.
  pipes.output.write.reset();
  CHECK(read_some(pipes.output.read, 200'000).size() < 200'000);
}

// For ThreadSanitizer: another thread changes the handler that the writer's thread calls, and then
// destroys what it uses.
TEST_CASE(
    "the room handler may be replaced at any moment, and the old one is not called after that") {
  const unique_fd file(::memfd_create("output", MFD_CLOEXEC));
  log::writer out({file.get(), file.get(), 1000});
  for (int turn = 0; turn < 500; ++turn) {
    auto lives = std::make_unique<bool>(true);
    bool told_late = false;
    out.on_room([&told_late, alive = lives.get()](log::output_stream) { told_late |= !*alive; });
    out.push(log::output_stream::output, std::string(2000, 'x'));
    out.on_room(nullptr);
    *lives = false;
    CHECK(!told_late);
  }
  CHECK(out.finish(patience));
}

TEST_CASE("a full queue says so, and says when there is room again") {
  const two_pipes pipes;
  std::mutex mutex;
  std::condition_variable changed;
  bool room = false;
  log::writer out(pipes.options(100'000));
  out.on_room([&](log::output_stream stream) {
    const std::lock_guard lock(mutex);
    room = stream == log::output_stream::output;
    changed.notify_all();
  });
  std::size_t pushed = 0;
  const std::string piece(50'000, 'x');
  bool taken = true;
  while (taken) {
    taken = out.push(log::output_stream::output, piece);
    pushed += piece.size();
    REQUIRE(pushed < 1'000'000);
  }
  // The thread may have overtaken the first answer; what matters is that both agree.
  CHECK(read_some(pipes.output.read, pushed).size() == pushed);
  std::unique_lock lock(mutex);
  CHECK(changed.wait_for(lock, patience, [&] { return room; }));
  CHECK(out.has_room(log::output_stream::output));
}

TEST_CASE("two streams that are one file have one order, and no open line is written into") {
  const two_pipes pipes;
  const unique_fd again(::dup(pipes.output.write.get()));
  log::writer out({pipes.output.write.get(), again.get(), 1000});
  using kind = log::line_part::kind;
  const auto push = [&](log::output_stream stream, std::string_view text, kind how,
                        std::uint64_t whose) {
    out.push(stream, {text, how, whose, "[a] "});
  };
  push(log::output_stream::output, "name? ", kind::opens, 1);
  out.say("ddprun: a word\n");
  push(log::output_stream::output, "Anna", kind::goes_on, 1);
  push(log::output_stream::errors, "wrong\n", kind::opens, 2);
  push(log::output_stream::output, "\n", kind::goes_on, 1);
  push(log::output_stream::output, "end", kind::passes, 3);
  CHECK(out.finish(patience));
  const std::string expected = "[a] name? \nddprun: a word\n[a] Anna\n[a] wrong\nend";
  CHECK(read_some(pipes.output.read, expected.size()) == expected);
}

TEST_CASE("two writers on one pipe never tear one another's lines") {
  const two_pipes pipes;
  log::writer first({pipes.output.write.get(), pipes.errors.write.get(), 1'000'000});
  log::writer second({pipes.output.write.get(), pipes.errors.write.get(), 1'000'000});
  // A length that does not divide PIPE_BUF, the size of a write.
  constexpr std::size_t line_bytes = 71;
  constexpr std::size_t lines = 5000;
  std::string ones, twos;
  for (std::size_t count = 0; count < lines; ++count) {
    ones += std::string(line_bytes - 1, '1') + "\n";
    twos += std::string(line_bytes - 1, '2') + "\n";
  }
  first.push(log::output_stream::output, ones);
  second.push(log::output_stream::output, twos);
  const std::string all = read_some(pipes.output.read, 2 * lines * line_bytes);
  REQUIRE(all.size() == 2 * lines * line_bytes);
  for (std::size_t at = 0; at < all.size(); at += line_bytes) {
    const std::string line = all.substr(at, line_bytes);
    REQUIRE(line == std::string(line_bytes - 1, line[0]) + "\n");
  }
}

TEST_CASE("lines that are not read in time are counted, and the count stands where they were") {
  const two_pipes pipes;
  auto options = pipes.options();
  options.name = "daemon";
  log::writer out(std::move(options));
  // This is more than a pipe holds, and the thread has all of it once the first byte has arrived.
  std::string expected(200'000, 'x');
  out.push(log::output_stream::errors, "x" + expected);
  REQUIRE(read_some(pipes.errors.read, 1) == "x");
  std::size_t taken = 0;
  std::size_t refused = 0;
  while (refused < 10) {
    if (out.say("word\n")) {
      ++taken;
    } else {
      ++refused;
    }
    REQUIRE(taken < 1'000'000);
  }
  expected += "\n";  // no other output ends up in an open line
  for (std::size_t count = 0; count < taken; ++count)
    expected += "word\n";
  expected += "daemon: 10 lines were left out here: nobody read them in time\n";
  CHECK(read_some(pipes.errors.read, expected.size()) == expected);
  CHECK(out.say("again\n"));
  CHECK(out.finish(patience));
  CHECK(read_some(pipes.errors.read, 6) == "again\n");
}

TEST_CASE("words of our own are taken however much of the workers waits before them") {
  const two_pipes pipes;
  log::writer out(pipes.options());
  const std::string much(1'000'000, 'x');
  out.push(log::output_stream::errors, much);
  CHECK(out.say("the reason\n"));
  CHECK(read_some(pipes.errors.read, much.size() + 12).ends_with("x\nthe reason\n"));
  CHECK(out.finish(patience));
}

TEST_CASE("what ended workers left behind has a reserve, and no more") {
  const two_pipes pipes;
  auto options = pipes.options();
  options.late_bytes = 500'000;
  log::writer out(options);
  out.push(log::output_stream::output, std::string(200'000, 'x'));
  const std::string piece(50'000, 'y');
  std::size_t taken = 0;
  while (out.push_late(log::output_stream::output, piece)) {
    taken += piece.size();
    REQUIRE(taken < 1'000'000);
  }
  CHECK(taken >= 250'000);
  CHECK(taken <= 501'000 - 200'000 + 65'536 + 50'000);
  CHECK(read_some(pipes.output.read, 200'000 + taken).ends_with(piece));
  CHECK(out.finish(patience));
}

TEST_CASE("the limit at the end counts from the last byte that the reader took") {
  const std::string much(1'600'000, 'x');
  // On a busy machine the reader's pauses may become as long as the limit; then the test is
  // repeated with a longer limit and longer pauses.
  bool is_waited_for = false;
  for (std::chrono::milliseconds limit{1000}; !is_waited_for && limit <= patience; limit *= 10) {
    two_pipes pipes;
    log::writer out(pipes.options());
    out.push(log::output_stream::output, much);
    std::string text;
    std::thread reader([&] {
      for (std::string piece = "x"; !piece.empty() && text.size() < much.size(); text += piece) {
        std::this_thread::sleep_for(limit / 50);  // its own pace
        piece = read_some(pipes.output.read, 16'000);
      }
    });
    const auto begin = std::chrono::steady_clock::now();
    is_waited_for = out.finish(limit);
    CHECK(std::chrono::steady_clock::now() - begin > limit);
    pipes.output.write.reset();
    reader.join();
    if (is_waited_for) CHECK(text == much);
  }
  CHECK(is_waited_for);
}

TEST_CASE("what a reader that stops never gets is said on the other stream, with its number") {
  two_pipes pipes;
  log::writer out(pipes.options());
  std::string lines;
  for (int count = 0; count < 10'000; ++count)
    lines += "some more words\n";
  out.push(log::output_stream::output, lines);
  CHECK(!out.finish(std::chrono::milliseconds(50)));
  // The thread may not have run by then, so the descriptor is not closed before the thread has said
  // so.
  pollfd said{pipes.errors.read.get(), POLLIN, 0};
  REQUIRE(::poll(&said, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) == 1);
  pipes.output.write.reset();
  pipes.errors.write.reset();
  const std::string text = read_some(pipes.output.read, lines.size());
  const auto lost = lines.size() - text.size();
  CHECK(read_some(pipes.errors.read, 1000) ==
        "ddprun: " + std::to_string(lost / 16) + " lines (" + std::to_string(lost) +
            " bytes) of standard output are lost: nobody read them in time\n");
}

TEST_CASE("a closed standard output costs one line, and nothing else") {
  two_pipes pipes;
  pipes.output.read.reset();
  log::writer out(pipes.options());
  out.push(log::output_stream::output, "lost\n");
  const std::string expected =
      "ddprun: standard output is closed: Broken pipe; going on without it\n";
  CHECK(read_some(pipes.errors.read, expected.size()) == expected);
  CHECK(out.push(log::output_stream::output, std::string(1'000'000, 'x')));
  CHECK(out.has_room(log::output_stream::output));
  out.say("more\n");
  CHECK(out.finish(patience));
  CHECK(read_some(pipes.errors.read, 5) == "more\n");
}

TEST_CASE("both streams closed is survived in silence") {
  two_pipes pipes;
  pipes.output.read.reset();
  pipes.errors.read.reset();
  log::writer out(pipes.options());
  out.push(log::output_stream::output, "lost\n");
  out.say("lost\n");
  CHECK(out.finish(patience));
}

// The disk is full as long as the file's descriptor is that of /dev/full.
TEST_CASE("a full disk is tried again, and what was dropped is counted at its place") {
  const two_pipes pipes;
  const unique_fd file(::memfd_create("output", MFD_CLOEXEC));
  const unique_fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const unique_fd output(::dup(full.get()));
  log::writer out({output.get(), pipes.errors.write.get(), 1000});
  out.push(log::output_stream::output, "first\n");
  CHECK(read_some(pipes.errors.read, disk_is_full.size()) == disk_is_full);
  // A caller that pushes more does not wait for the disk.
  std::string line(99, 'x');
  line += '\n';
  int pushed = 0;
  for (; pushed < 1000; ++pushed)
    REQUIRE(out.push(log::output_stream::output, line));
  CHECK(out.has_room(log::output_stream::output));
  ::dup2(file.get(), output.get());
  const auto content = [&] {
    std::string text(200'000, '\0');
    const auto count = ::pread(file.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(count));
    return text;
  };
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (content().find("lost here") == std::string::npos) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
  out.push(log::output_stream::output, "last\n");
  CHECK(out.finish(patience));
  std::string all = "first\n";
  for (int kept = 0; kept < 10; ++kept)
    all += line;
  all +=
      "ddprun: 990 lines (99000 bytes) are lost here: standard output could not be written (No "
      "space left on device)\nlast\n";
  CHECK(content() == all);
}

TEST_CASE("a disk that stays full is not waited for at the end, and the loss is said") {
  const two_pipes pipes;
  const unique_fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  log::writer out({full.get(), pipes.errors.write.get(), 1000});
  out.push(log::output_stream::output, "one\ntwo\n");
  CHECK(out.finish(patience));
  const std::string expected =
      disk_is_full +
      "ddprun: 2 lines (8 bytes) of standard output are lost: it could not be written\n";
  CHECK(read_some(pipes.errors.read, expected.size()) == expected);
}

TEST_CASE("a terminal that has hung up is closed") {
  const two_pipes pipes;
  unique_fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master);
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  const unique_fd terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal);
  log::writer out({terminal.get(), pipes.errors.write.get(), 1000});
  master.reset();
  out.push(log::output_stream::output, "lost\n");
  const std::string expected =
      "ddprun: standard output is closed: Input/output error; going on without it\n";
  CHECK(read_some(pipes.errors.read, expected.size()) == expected);
  CHECK(out.finish(patience));
}

TEST_CASE("a file takes everything") {
  const unique_fd file(::memfd_create("output", MFD_CLOEXEC));
  log::writer out({file.get(), file.get(), 1000});
  std::string all;
  for (int count = 0; count < 10'000; ++count) {
    const std::string line = "line " + std::to_string(count) + "\n";
    out.push(log::output_stream::output, line);
    all += line;
  }
  CHECK(out.finish(patience));
  std::string text(all.size() + 1, '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(count));
  CHECK(text == all);
}
