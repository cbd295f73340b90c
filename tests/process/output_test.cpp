// The path of the bytes from a worker to a reader, through pipes, splitter and writer.
#include "tests/support/catch.hpp"
#include "tests/support/child_program.hpp"
#include "tests/support/process_fixture.hpp"

#include <csignal>
#include <cstdio>
#include <fstream>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

// A field of /proc/PID/status in KiB.
long status_kib(pid_t pid, const std::string& field) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(field + ":")) return std::atol(line.c_str() + field.size() + 1);
  }
  return -1;
}

}  // namespace

TEST_CASE("100 MB through a slow reader: nothing lost, and the agent stays small") {
  // Two workers print 50 MB each. A line that comes in two parts, with a second between them on a
  // busy machine, may be shown as two lines, so the test counts bytes.
  const std::string script = "head -c 50000000 /dev/zero | tr '\\0' x | fold -w 999";
  child_program agent({"test_agent", "--prefix", script, script});
  std::string buffer;
  std::size_t seen[2] = {0, 0};
  char chunk[8192];
  ssize_t count;
  long peak_kib = 0;
  while ((count = ::read(agent.output_fd(), chunk, sizeof(chunk))) > 0) {
    buffer.append(chunk, static_cast<std::size_t>(count));
    for (auto end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
      const std::string line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      if (!line.starts_with("[node:")) continue;
      const auto worker = static_cast<std::size_t>(line[6] - '0');
      REQUIRE(worker < 2);
      REQUIRE(line.find_first_not_of('x', 9) == std::string::npos);
      seen[worker] += line.size() - 9;
    }
    const long now_kib = status_kib(agent.pid(), "VmHWM");
    if (now_kib > peak_kib) peak_kib = now_kib;
  }
  CHECK(buffer.empty());
  CHECK(seen[0] == 50'000'000);
  CHECK(seen[1] == 50'000'000);
  std::printf("100 MB of output: peak of the agent %ld KiB\n", peak_kib);
  CHECK(peak_kib > 0);
#if !defined(DDPRUN_SANITIZED)
  CHECK(peak_kib < 16 * 1024);
#endif
  CHECK(agent.wait() == 0);
}

TEST_CASE("a reader that stops makes the workers wait, and loses nothing") {
  child_program agent({"test_agent", "--prefix", "seq 200000; echo done >&2"});
  // Standard error is another pipe; "done" comes only when all numbers have been read.
  for (int count = 0; count < 100; ++count)
    agent.line();
  CHECK(agent.rest().ends_with("[node:0] 200000\n"));
  CHECK(agent.errors_rest() == "[node:0] done\nend: 0 exit code 0\n");
}

TEST_CASE("huge lines, bytes that are no text and a missing newline come through") {
  process_fixture fixture;
  const auto ends = fixture.run_group({
      fixture.shell("head -c 200000 /dev/zero | tr '\\0' y", 0, "[a:0] "),
      fixture.shell("printf '\\377\\376\\000x\\n'; printf '\\303' >&2", 1, "[a:1] "),
  });
  REQUIRE(ends.size() == 2);
  CHECK(ends.at(1).tail == "\xEF\xBF\xBD");
  const std::string output = fixture.output();
  std::size_t ys = 0;
  for (const char byte : output)
    ys += byte == 'y';
  CHECK(ys == 200'000);
  CHECK(output.find(std::string("[a:1] \xff\xfe\0x\n", 11)) != std::string::npos);
  CHECK(output.back() == '\n');
}

TEST_CASE("workers whose reader is gone go on to their end") {
  child_program agent({"test_agent", "--prefix", "seq 100000; exit 5"});
  agent.line();
  agent.close_output();
  CHECK(agent.errors_rest() ==
        "ddprun: standard output is closed: Broken pipe; going on without it\n"
        "end: 0 exit code 5\n");
  CHECK(WEXITSTATUS(agent.wait()) == 5);
}
