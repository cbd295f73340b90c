#include "rendezvous/log/open_line.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun::log;
using kind = line_part::kind;

namespace {

struct output {
  explicit output(bool redraws = false) : line(redraws) {}
  void push(std::uint64_t whose, kind how, std::string_view text, bool is_state = false) {
    const std::string prefix = "[" + std::to_string(whose) + "] ";
    line.append(text_, {text, how, whose, prefix, is_state});
  }
  std::string text() { return std::exchange(text_, {}); }

  open_line line;
  std::string text_;
};

}  // namespace

TEST_CASE("a line goes on where no other writer has written") {
  output to;
  to.push(1, kind::opens, "Name: ");
  to.push(1, kind::goes_on, "Anna");
  to.push(1, kind::goes_on, "\n");
  CHECK(to.text() == "[1] Name: Anna\n");
}

TEST_CASE(
    "another stream's output ends an open line, and the rest of that line has a prefix again") {
  output to;
  to.push(1, kind::opens, "Name: ");
  to.push(2, kind::begins, "[2] step\n");
  to.push(1, kind::goes_on, "Anna\n");
  CHECK(to.text() == "[1] Name: \n[2] step\n[1] Anna\n");
  to.push(1, kind::opens, "Name: ");
  to.line.append_lines(to.text_, "ddprun: word\n");
  // That stream's line has got its newline.
  to.push(1, kind::goes_on, "\r\n");
  to.push(1, kind::begins, "[1] next\n");
  CHECK(to.text() == "[1] Name: \nddprun: word\n[1] next\n");
}

TEST_CASE("its owner's next line ends an open one, too") {
  output to;
  to.push(1, kind::opens, "lost its end");
  to.push(1, kind::begins, "[1] next\n");
  CHECK(to.text() == "[1] lost its end\n[1] next\n");
}

TEST_CASE("what is passed through stays as it is, but for others' words between") {
  output to;
  to.push(7, kind::passes, "a");
  to.push(7, kind::passes, "\n");
  to.push(7, kind::passes, "\nb");
  to.line.append_lines(to.text_, "ddprun: word\n");
  to.push(7, kind::passes, "\n");
  CHECK(to.text() == "a\n\nb\nddprun: word\n\n");
}

TEST_CASE("a terminal has a bar's newest state in the place of the one before") {
  output to(true);
  to.push(1, kind::opens, "10%", true);
  to.push(1, kind::replaces, "20%", true);
  to.push(1, kind::goes_on, "!", true);
  to.push(1, kind::replaces, "done\n");
  CHECK(to.text() == "[1] 10%\r\x1b[K[1] 20%!\r\x1b[K[1] done\n");
  to.push(1, kind::opens, "10%", true);
  to.push(2, kind::opens, "50%", true);
  to.push(1, kind::replaces, "20%", true);
  to.push(1, kind::goes_on, "\n");
  CHECK(to.text() == "[1] 10%\n[2] 50%\n[1] 20%\n");
}

TEST_CASE("elsewhere each state is a line") {
  output to;
  to.push(1, kind::opens, "10%", true);
  to.push(2, kind::opens, "50%", true);
  to.push(1, kind::replaces, "20%", true);
  to.push(1, kind::goes_on, "\n");
  to.push(1, kind::opens, "first", false);
  to.push(1, kind::replaces, "30%", true);
  to.push(1, kind::replaces, "done\n");
  CHECK(to.text() == "[1] 10%\n[2] 50%\n[1] 20%\n[1] first\n[1] 30%\n[1] done\n");
}

TEST_CASE("a bar that wipes itself away leaves nothing") {
  output to(true);
  to.push(1, kind::opens, "10%", true);
  to.push(1, kind::replaces, "   ", true);
  to.push(2, kind::begins, "[2] next\n");
  CHECK(to.text() == "[1] 10%\r\x1b[K[2] next\n");
  output file;
  file.push(1, kind::opens, "10%", true);
  file.push(1, kind::replaces, "   ", true);
  CHECK(file.text() == "[1] 10%\n");
}

TEST_CASE("a passing state is wiped by the next writer, where that can be") {
  const line_part first{"1 s", kind::replaces, 9, {}, true, true};
  const line_part second{"2 s", kind::replaces, 9, {}, true, true};
  output terminal(true);
  terminal.line.append(terminal.text_, first);
  terminal.line.append(terminal.text_, second);
  CHECK(terminal.text() == "1 s\r\x1b[K2 s");
  terminal.line.append_lines(terminal.text_, "ddprun: round 1 starts\n");
  CHECK(terminal.text() == "\r\x1b[Kddprun: round 1 starts\n");
  terminal.line.append(terminal.text_, first);
  terminal.push(1, kind::begins, "[1] step\n");
  CHECK(terminal.text() == "1 s\r\x1b[K[1] step\n");
  // The program's own line is not a state, so it stays.
  terminal.push(1, kind::opens, "Name: ");
  terminal.line.append(terminal.text_, first);
  CHECK(terminal.text() == "[1] Name: \n1 s");
}

TEST_CASE("our own state never wipes what a worker has left open, nor goes on in its line") {
  output terminal(true);
  terminal.push(passed_through, kind::passes, "name? ");
  terminal.line.append(terminal.text_, {"1 s", kind::replaces, own_words, {}, true, true});
  terminal.push(passed_through, kind::passes, "Anna\n");
  CHECK(terminal.text() == "name? \n1 s\r\x1b[KAnna\n");
}
