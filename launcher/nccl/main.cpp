// ddprun-nccl-id makes NCCL's unique ids of one round, and stays until it is no longer wanted: each
// id is a listener of this process, where the ranks of one communicator meet. The agent that leads
// the round starts it, says how many on its standard input, and kills it with the round.
//
// What it says on standard output, a line each: "version 23007", "library PATH" as soon as NCCL is
// loaded; then "address 10.0.0.1:41233" of the first id, "id HEX" for each, "end". Or "problem
// TEXT", and it exits with 1. What NCCL itself says goes to standard error.
#include "launcher/agent/installed_packages.hpp"
#include "launcher/cli/check_files.hpp"
#include "launcher/nccl/nccl_library.hpp"
#include "rendezvous/base/environment_map.hpp"
#include "rendezvous/base/version.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>

namespace {

using namespace ddprun;

constexpr std::string_view usage_text =
    R"(usage: ddprun-nccl-id [--library PATH | --python] [COUNT]

Makes COUNT unique ids of NCCL, prints them, and stays until its standard input ends: the ranks of
the communicators meet in this process. Without COUNT it reads the number there.

  --library PATH  this libnccl
  --python        that of the packages of $PYTHON_EXEC, $VIRTUAL_ENV or python3, else the system's
)";

// Ours alone: NCCL says what it has to say on standard output.
std::FILE* take_standard_output() {
  const int answer = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return ::fdopen(answer, "w");
}

void say(std::FILE* to, std::string_view word, const std::string& text) {
  std::fprintf(to, "%.*s %s\n", static_cast<int>(word.size()), word.data(), text.c_str());
  std::fflush(to);
}

// 0: no number.
std::uint32_t read_count(std::string_view text) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && count <= launcher::nccl_ids_max_made ? count : 0;
}

// Up to the end of a line; empty at the end of the input.
std::string read_line() {
  std::string line;
  char one = 0;
  while (::read(STDIN_FILENO, &one, 1) == 1 && one != '\n')
    line += one;
  return line;
}

int serve(const std::string& path, std::uint32_t count, std::FILE* answer) {
  std::string problem;
  const auto nccl = launcher::nccl_library::open(path, problem);
  if (!nccl) return say(answer, "problem", problem), 1;
  say(answer, "version", std::to_string(nccl->version()));
  say(answer, "library", nccl->path());
  if (count == 0) {
    const std::string line = read_line();
    if (line.empty()) return 0;  // no round was led
    count = read_count(line);
    if (count == 0) return say(answer, "problem", "'" + line + "' is not a number of ids"), 1;
  }
  for (std::uint32_t number = 0; number < count; ++number) {
    const auto id = nccl->make_id(problem);
    if (!id) return say(answer, "problem", problem), 1;
    if (number == 0) say(answer, "address", address_of(*id));
    say(answer, "id", to_text(*id));
  }
  std::fputs("end\n", answer);
  std::fflush(answer);
  while (!read_line().empty()) {
  }
  return 0;
}

int usage(const std::string& problem) {
  std::fprintf(stderr, "ddprun-nccl-id: %s\n", problem.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const environment_map environment = environment_from(environ);
  std::string path;
  std::uint32_t count = 0;
  for (int index = 1; index < argc; ++index) {
    const std::string word = argv[index];
    if (word == "--help" || word == "-h") {
      std::fwrite(usage_text.data(), 1, usage_text.size(), stdout);
      return 0;
    }
    if (word == "--version") return std::printf("ddprun-nccl-id %s\n", version.data()), 0;
    if (word == "--python") {
      path = launcher::installed_nccl(environment);
    } else if (word == "--library") {
      if (++index == argc) return usage("--library: the path is missing");
      path = argv[index];
    } else if (count = read_count(word); count == 0) {
      return usage("'" + word + "' is no option and no number from 1 to " +
                   std::to_string(launcher::nccl_ids_max_made) + "; see --help");
    }
  }
  if (const std::string* const named = find_variable(environment, "DDPRUN_NCCL_LIBRARY"))
    path = *named;
  return serve(path, count, take_standard_output());
}
