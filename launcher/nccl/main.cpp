// ddprun-nccl-id makes NCCL's unique ids of one round, and stays until it is no longer wanted: each
// id is a listener of this process, where the ranks of one communicator meet. The agent that leads
// the round starts it, says how many on its standard input, and kills it with the round.
//
// What it says on standard output, a line each: "version 23007", "library PATH" as soon as NCCL is
// loaded; then "address 10.0.0.1:41233" of the first id, "id HEX" for each, "end". Or "problem
// TEXT", and it exits with 1. What NCCL itself says goes to standard error.
#include "launcher/agent/installed_packages.hpp"
#include "launcher/nccl/nccl_library.hpp"
#include "launcher/nccl/options.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <cstdio>
#include <string>
#include <string_view>
#include <unistd.h>
#include <variant>

namespace {

using namespace ddprun;

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
    const auto told = launcher::read_id_count(line);
    if (!told) return say(answer, "problem", told.error().text), 1;
    count = *told;
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

}  // namespace

int main(int argc, char** argv) {
  const environment_map environment = environment_from(environ);
  auto outcome = launcher::parse_nccl_id_options({argv + 1, argv + argc}, environment);
  if (const auto* const error = std::get_if<cli::usage_error>(&outcome)) {
    std::fprintf(stderr, "ddprun-nccl-id: %s\n", error->text.c_str());
    return usage_exit_code;
  }
  if (const auto* const answer = std::get_if<cli::show_text>(&outcome)) {
    std::fputs(answer->text.c_str(), stdout);
    return 0;
  }
  const auto& options = std::get<launcher::nccl_id_options>(outcome);
  const std::string path =
      options.asks_python ? launcher::installed_nccl(environment) : options.library;
  return serve(path, options.count, take_standard_output());
}
