// Output to a reader that pauses, is slow or never comes back: every line arrives, or a line says
// how many are lost. tests/cluster/test_output.py has the same with the real limits.
#include "tests/support/catch.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/process_fixture.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <regex>
#include <sstream>
#include <thread>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// 56 kB, which a worker can write before it ends, even if its pipe is not read.
constexpr int few_lines = 700;

std::string script(int lines, int code) {
  return "seq -f \"line %06.0f $(printf %067d 0)\" " + std::to_string(lines) + "; exit " +
         std::to_string(code);
}

std::string in_ms(std::chrono::milliseconds limit) {
  return std::to_string(limit.count());
}

std::vector<std::string> agent_line(std::vector<std::string> options, int workers,
                                    const std::string& each) {
  std::vector<std::string> line = {"test_agent", "--no-guardian", "--prefix"};
  line.insert(line.end(), options.begin(), options.end());
  line.insert(line.end(), static_cast<std::size_t>(workers), each);
  return line;
}

// How many whole lines of workers are in the text, in order for each worker.
int lines_in(const std::string& text) {
  std::istringstream stream(text);
  std::map<std::string, int> last;
  int count = 0;
  for (std::string line; std::getline(stream, line);) {
    const auto at = line.find("] line ");
    if (at == std::string::npos || line.size() != at + 81) continue;
    const int number = std::atoi(line.c_str() + at + 7);
    int& before = last[line.substr(0, at)];
    CHECK(number > before);
    before = number;
    ++count;
  }
  return count;
}

int lost_in(const std::string& text) {
  static const std::regex lost("([0-9]+) lines \\([0-9]+ bytes\\)");
  int count = 0;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), lost); at != std::sregex_iterator();
       ++at) {
    count += std::atoi((*at)[1].str().c_str());
  }
  return count;
}

// Reads what the pipe holds after each pause.
std::string read_slowly(const child_program& agent, std::chrono::milliseconds pause) {
  std::string text;
  std::string chunk(65536, '\0');
  ssize_t count;
  do {
    std::this_thread::sleep_for(pause);  // the reader's own pace
    count = ::read(agent.output_fd(), chunk.data(), chunk.size());
    if (count > 0) text.append(chunk, 0, static_cast<std::size_t>(count));
  } while (count > 0);
  return text;
}

// Limits that are tried one after the other. Within a limit the processes of this test must get
// some processor time; on a busy machine that takes a longer limit.
constexpr std::chrono::milliseconds limits[] = {std::chrono::milliseconds(500),
                                                std::chrono::seconds(5), std::chrono::seconds(50)};

}  // namespace

TEST_CASE("workers that fail while the output is not read end at once, and every line arrives") {
  const int workers = GENERATE(1, 8);
  child_program agent(
      agent_line({"--drain-limit", "20", "--queue", "20000"}, workers, script(few_lines, 3)));
  for (int count = 0; count < workers; ++count)
    CHECK(agent.error_line().ends_with(" exit code 3"));
  CHECK(lines_in(agent.rest()) == workers * few_lines);
  CHECK(WEXITSTATUS(agent.wait()) == 3);
}

TEST_CASE("a reader that pauses for longer than the drain limit gets every line") {
  const int workers = GENERATE(1, 8);
  const int code = GENERATE(0, 3);
  child_program agent(
      agent_line({"--drain-limit", "20", "--queue", "20000"}, workers, script(3000, code)));
  const std::string first = agent.line() + "\n";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the reader's pause
  CHECK(lines_in(first + agent.rest()) == workers * 3000);
  CHECK(WEXITSTATUS(agent.wait()) == code);
}

TEST_CASE("a slow reader that reads on for longer than the limit gets every line") {
  const int code = GENERATE(0, 3);
  const int workers = code == 0 ? 1 : 8;
  const int lines = 8 * few_lines / workers;
  int found = 0;
  int ended_with = -1;
  for (const auto limit : limits) {
    if (found == workers * lines) break;
    const auto begin = std::chrono::steady_clock::now();
    child_program agent(agent_line({"--output-limit", in_ms(limit)}, workers, script(lines, code)));
    found = lines_in(read_slowly(agent, limit / 4));
    CHECK(std::chrono::steady_clock::now() - begin > limit);
    ended_with = WEXITSTATUS(agent.wait());
  }
  CHECK(found == workers * lines);
  CHECK(ended_with == code);
}

TEST_CASE("the children of a successful worker have their moment without the reader's pauses") {
  int found = 0;
  int status = -1;
  for (const auto limit : limits) {
    if (found == 8 * few_lines) break;
    child_program agent(agent_line({"--drain-limit", in_ms(limit), "--queue", "20000"}, 1,
                                   "(" + script(8 * few_lines, 0) + ") & exit 0"));
    found = lines_in(read_slowly(agent, limit / 4));  // in all, longer than the limit
    status = agent.wait();
  }
  CHECK(found == 8 * few_lines);
  CHECK(status == 0);
}

TEST_CASE("a reader that never comes back is given up, and the loss is said with its number") {
  // Within the limit the agent also writes what comes before that line.
  int lost = 0;
  for (const auto limit : limits) {
    if (lost > 0) break;
    child_program agent(agent_line({"--output-limit", in_ms(limit)}, 1, script(3000, 0)));
    const std::string errors = agent.errors_rest();
    CHECK(WEXITSTATUS(agent.wait()) == 9);
    lost = lost_in(errors);
    if (lost == 0) continue;
    CHECK(errors.find(" of standard output are lost: nobody read them in time\n") !=
          std::string::npos);
    CHECK(lines_in(agent.rest()) + lost == 3000);
  }
  CHECK(lost > 0);
}

TEST_CASE("what goes beyond the reserve for ended workers is counted for each") {
  constexpr int workers = 4;
  child_program agent(
      agent_line({"--queue", "1000", "--late", "100000"}, workers, script(few_lines, 3)));
  std::string ends;
  for (int count = 0; count < workers; ++count)
    ends += agent.error_line() + "\n";
  CHECK(lines_in(agent.rest()) + lost_in(ends) == workers * few_lines);
  CHECK(lost_in(ends) > 0);
}

TEST_CASE("the last words of a failed worker are kept, whatever the reader does") {
  auto unread = *make_pipe();  // outlives the writer
  process_fixture fixture;
  fixture.mux.reset();
  fixture.out = std::make_unique<log::writer>(
      log::writer::options{unread.write.get(), unread.write.get(), 1000});
  fixture.mux = std::make_unique<log_mux>(fixture.io.get_executor(), *fixture.out, fixture.files);
  std::vector<worker_command> commands;
  const std::uint32_t workers = GENERATE(1, 8);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    commands.push_back(
        fixture.shell("head -c 60000 /dev/zero | tr '\\0' x >&2; echo; echo reason $0 >&2; exit 3",
                      rank, "[a] "));
  }
  const auto ends = fixture.run_group(commands, {std::chrono::milliseconds(20)});
  REQUIRE(ends.size() == workers);
  for (const auto& [rank, end] : ends) {
    CHECK(end.tail.ends_with("reason sh\n"));
    CHECK(end.lost.none());
  }
}
