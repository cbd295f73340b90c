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

TEST_CASE("of a progress bar the newest state is kept, and what was said before it") {
  const std::string bytes = "warning: slow\r\n 1%\r 2%\r\r 3%\nnext\r\n\r";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    INFO("pieces of " << piece);
    output_tail tail;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      tail.add(std::string_view(bytes).substr(at, piece));
    CHECK(tail.text() == "warning: slow\r\n 3%\nnext\r\n");
    for (int percent = 0; percent < 10'000; ++percent)
      tail.add("\r" + std::to_string(percent));
    CHECK(tail.text() == "warning: slow\r\n 3%\nnext\r\n9999");
  }
}

// Python 3.13 colours what it writes to a terminal.
TEST_CASE("a traceback that was coloured for a terminal is kept as text") {
  output_tail tail;
  tail.add(
      "  File \x1b[35m\"/data/a.py\"\x1b[0m, line \x1b[35m3\x1b[0m, in \x1b[35mstep\x1b[0m\n"
      "\x1b[1;35mValueError\x1b[0m: \x1b[35mloss is NaN\x1b[0m\n");
  CHECK(tail.text() == "  File \"/data/a.py\", line 3, in step\nValueError: loss is NaN\n");
}

namespace {

std::string frame(int number) {
  return "frame #" + std::to_string(number) +
         ": c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0x17b1 (0x7ff47ff07fc1 in "
         "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so)\n";
}

std::string stack(int frames) {
  std::string text;
  for (int number = 0; number < frames; ++number)
    text += frame(number);
  return text;
}

std::string tail_of(const std::string& all, std::size_t piece) {
  output_tail tail;
  for (std::size_t at = 0; at < all.size(); at += piece)
    tail.add(std::string_view(all).substr(at, piece));
  return tail.text();
}

}  // namespace

TEST_CASE("an error above a C++ stack is kept, and of the stack its first frames") {
  const std::string error = "terminate called: CUDA error: an illegal memory access\n";
  const std::string after = "Fatal Python error: Aborted\n";
  for (const std::size_t piece : {1U, 7U, 4096U, 1U << 20}) {
    INFO("pieces of " << piece);
    CHECK(tail_of(error + stack(64) + after, piece) ==
          error + stack(3) + "frame #3 to #63: 61 frames are left out\n" + after);
    CHECK(tail_of(error + stack(4), piece) ==
          error + stack(3) + "frame #3 to #3: 1 frame is left out\n");
    CHECK(tail_of(error + stack(3) + after, piece) == error + stack(3) + after);
    // Frames of each stack are kept, as each error is.
    CHECK(tail_of(error + stack(30) + "\n" + error + stack(30) + "frame", piece) ==
          error + stack(3) + "frame #3 to #29: 27 frames are left out\n\n" + error + stack(3) +
              "frame #3 to #29: 27 frames are left out\nframe");
  }
}

TEST_CASE("a stack that follows at once on another one is one of its own") {
  CHECK(tail_of(stack(10) + stack(5), 100) == stack(3) + "frame #3 to #9: 7 frames are left out\n" +
                                                  stack(3) +
                                                  "frame #3 to #4: 2 frames are left out\n");
}

TEST_CASE("what only resembles a stack is kept") {
  std::string text;
  for (const char* const line :
       {"frame 4 of the video", "frame #x: no", "frame #4 no", " frame #4: indented", "frame #4:"})
    for (int count = 0; count < 5; ++count)
      text += std::string(line) + "\n";
  CHECK(tail_of(text, 3).starts_with("frame 4 of the video\nframe 4 of"));
  CHECK(tail_of(text, 3).find(" frame #4: indented\n frame #4: indented\n") != std::string::npos);
}

TEST_CASE("a stack of any length is held in bounded memory and loses no error above it") {
  output_tail tail;
  tail.add("the cause\n");
  for (int number = 0; number < 100'000; ++number)
    tail.add(frame(number));
  CHECK(tail.text() ==
        "the cause\n" + stack(3) + "frame #3 to #99999: 99997 frames are left out\n");
}

TEST_CASE("a stack whose lines PyTorch marks with its rank is one too") {
  std::string marked;
  for (int number = 0; number < 5; ++number)
    marked += "[rank3]: " + frame(number);
  CHECK(tail_of(marked, 50).ends_with("frame #3 to #4: 2 frames are left out\n"));
}

namespace {

std::string library_frame(int number) {
  return "  File \"/opt/venv/lib/python3.12/site-packages/torch/_inductor/compile_fx.py\", line " +
         std::to_string(number) + ", in inner\n    return inner_compile(gm, example_inputs)\n" +
         "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n";
}

std::string library_frames_from(int first, int last) {
  std::string text;
  for (int number = first; number <= last; ++number)
    text += library_frame(number);
  return text;
}

const std::string head = "Traceback (most recent call last):\n";
const std::string own = "  File \"/data/train.py\", line 12, in <module>\n    train_step(step)\n";

}  // namespace

TEST_CASE("a person's own frames are kept above any number of those of packages") {
  const std::string error = "RuntimeError: shapes do not match\n";
  const std::string all =
      head + own + library_frames_from(1, 80) + own + library_frames_from(1, 4) + error;
  for (const std::size_t piece : {1U, 7U, 4096U, 1U << 20}) {
    INFO("pieces of " << piece);
    CHECK(tail_of(all, piece) == head + own + "  [77 frames of installed packages left out]\n" +
                                     library_frames_from(78, 80) + own +
                                     "  [1 frame of installed packages left out]\n" +
                                     library_frames_from(2, 4) + error);
  }
  CHECK(tail_of(head + own + library_frames_from(1, 3) + error, 100) ==
        head + own + library_frames_from(1, 3) + error);
  // The frames are not complete yet.
  CHECK(tail_of(head + own + library_frames_from(1, 5), 100) ==
        head + own + "  [2 frames of installed packages left out]\n" + library_frames_from(3, 5));
}

TEST_CASE("frames of packages of any length and number are held in bounded memory") {
  output_tail tail;
  for (int number = 0; number < 10'000; ++number)
    tail.add(library_frame(number));
  tail.add("  File \"/lib/python3/a.py\", line 3, in f\n    " + std::string(20'000, 'x') + "\n");
  for (int number = 0; number < 10; ++number)
    tail.add(library_frame(number));
  tail.add("KeyError: 'x'\n");
  const std::string text = tail.text();
  CHECK(text.size() <= output_tail_bytes_max);
  CHECK(text.ends_with(library_frames_from(7, 9) + "KeyError: 'x'\n"));
}
