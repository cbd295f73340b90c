// A worker whose output is a terminal: what it sees of it, and what comes out.
#include "launcher/process/pty.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/process_fixture.hpp"

#include <fcntl.h>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

worker_command on_terminal(const std::string& script, const std::string& prefix = "") {
  worker_command command = process_fixture::shell(script, 0, prefix);
  command.output.terminal = command.errors.terminal = terminal_size{24, 80};
  return command;
}

std::string numbers(int count) {
  std::string text;
  for (int number = 1; number <= count; ++number)
    text += std::to_string(number) + "\n";
  return text;
}

}  // namespace

TEST_CASE("a worker finds its terminal, with its size, and its bytes come as it wrote them") {
  process_fixture fixture;
  const auto ends = fixture.run_group({on_terminal(
      "test -t 1 && test -t 2 && stty size <&1; printf 'a\\nb\\r\\n\\tc\\377\\n'; echo bad >&2")});
  CHECK(ends.at(0).status().success());
  CHECK(ends.at(0).tail == "bad\n");
  CHECK(fixture.output() == "24 80\na\nb\r\n\tc\xff\n");
  CHECK(fixture.errors() == "bad\n");
}

TEST_CASE("no word of a worker on a terminal is lost at its end, and that is one") {
  process_fixture fixture;
  const auto ends = fixture.run_group({on_terminal("seq 200000; printf last; exit 3")});
  CHECK(ends.at(0).status().code == 3);
  CHECK(fixture.output() == numbers(200000) + "last");
}

TEST_CASE("a worker is told of its terminal's new size") {
  process_fixture fixture;
  worker_group& group = fixture.start_group(
      {on_terminal("trap 'stty size <&1; stty size <&2; exit 0' WINCH; echo ready; "
                   "while :; do sleep 0.05; done",
                   "[a:0] ")});
  const auto says = [&](const std::string& text) {
    return content_of(fixture.output_file.get()).find(text) != std::string::npos;
  };
  fixture.run_until([&] { return says("ready"); });
  group.resize_terminals(terminal_size{30, 100}, terminal_size{31, 101});
  fixture.run_until([&] { return fixture.all_ended; });
  // Its lines begin with a prefix of six columns.
  CHECK(fixture.output() == "[a:0] ready\n[a:0] 30 94\n[a:0] 31 95\n");
}

TEST_CASE("no other worker has anything of the terminal, nor anybody beside them a pipe of it") {
  process_fixture fixture;
  worker_command other = process_fixture::shell(
      "test -t 1 || echo pipe; ls /proc/self/fd | tr '\\n' ' '", 1, "[a:1] ");
  fixture.run_group({on_terminal("exec 3>&-; ls /proc/self/fd | wc -l", "[a:0] "), other});
  const std::string output = fixture.output();
  CHECK(output.find("[a:0] 4\n") != std::string::npos);  // and the one of the listing itself
  INFO(output);
  CHECK(output.find("[a:1] pipe\n") != std::string::npos);
  CHECK(output.find("[a:1] 0 1 2 3 \n") != std::string::npos);
}

TEST_CASE("colours of a worker on a terminal stay beside others, movements do not") {
  process_fixture fixture;
  fixture.run_group(
      {on_terminal("printf '\\033[1mbold\\033[0m\\033[K\\033[2Aup\\033[?25l\\n'", "[a:0] ")});
  CHECK(fixture.output() == "[a:0] \x1b[1mbold\x1b[0m\x1b[Kup\n");
}

TEST_CASE(
    "all that a terminal holds is read when it is released, even if another process has it open") {
  process_fixture fixture;
  auto ends = make_pty({24, 80});
  REQUIRE(ends.has_value());
  ::fcntl(ends->write.get(), F_SETFL, O_NONBLOCK);
  std::string text = numbers(10000);
  const auto written = ::write(ends->write.get(), text.data(), text.size());
  REQUIRE(written > 4096);
  text.resize(static_cast<std::size_t>(written));
  log_route route;
  route.terminal = terminal_size{24, 80};
  const auto source = fixture.mux->add({std::move(ends->read), route, {}, {}, {}});
  CHECK(fixture.mux->release(source).none());
  CHECK(fixture.output() == text);
}
