// ddprun-nccl-id makes NCCL's unique ids of one round, and runs until they are not needed any more:
// each id is a listener of this process, where the ranks of one communicator meet. The agent that
// leads the round starts it, writes the number of ids to its standard input, and kills it with the
// round.
//
// It prints lines on standard output: "version 23007" and "library PATH" once NCCL is loaded; then
// "address 10.0.0.1:41233" of the first id, "id HEX" for each, and "end". On an error it prints
// "problem TEXT" and exits with 1. NCCL's own output goes to standard error.
#include "launcher/nccl/nccl_id_options.hpp"
#include "launcher/nccl/nccl_library.hpp"
#include "launcher/nccl/program_libraries.hpp"
#include "launcher/node/installed_packages.hpp"
#include "rendezvous/base/environment_map.hpp"

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <unistd.h>
#include <variant>

namespace {

using namespace ddprun;

// Keeps standard output for us: NCCL prints its messages there.
std::FILE* take_standard_output() {
  const int answer = ::dup(STDOUT_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return ::fdopen(answer, "w");
}

void say(std::FILE* to, std::string_view word, const std::string& text) {
  std::fprintf(to, "%.*s %s\n", static_cast<int>(word.size()), word.data(), text.c_str());
  std::fflush(to);
}

// Reads to the end of a line; empty at the end of the input.
std::string read_line() {
  std::string line;
  char one = 0;
  while (::read(STDIN_FILENO, &one, 1) == 1 && one != '\n')
    line += one;
  return line;
}

// True for "/opt/venv/bin/python3.11", but not for other names that begin so, because the program
// will be run.
bool is_python(const std::string& program) {
  const std::string name = program.substr(program.rfind('/') + 1);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

// Empty: the program has no library of its own.
std::string own_library(const std::string& program, environment_map environment) {
  if (!is_python(program))
    return launcher::library_of_program(program, launcher::nccl_library_name, environment);
  environment.insert_or_assign("PYTHON_EXEC", program);
  return launcher::installed_nccl(environment);
}

// The program's own library is preferred, because it is what its ranks use. A program that loads
// NCCL later, or is a script, gets the system's library, or else Python's, which it may be about to
// run.
std::optional<launcher::nccl_library> open_for(const launcher::nccl_id_options& options,
                                               const environment_map& environment,
                                               std::string& problem) {
  using launcher::nccl_library;
  if (options.program.empty()) {
    return nccl_library::open(
        options.asks_python ? launcher::installed_nccl(environment) : options.library, problem);
  }
  const std::string own = own_library(options.program, environment);
  if (auto found = nccl_library::open(own, problem); found || !own.empty()) return found;
  const std::string of_python = launcher::installed_nccl(environment);
  if (of_python.empty()) return std::nullopt;
  return nccl_library::open(of_python, problem);
}

int serve(const launcher::nccl_id_options& options, const environment_map& environment,
          std::FILE* answer) {
  std::string problem;
  const auto nccl = open_for(options, environment, problem);
  if (!nccl) return say(answer, "problem", problem), failed_exit_code;
  say(answer, "version", std::to_string(nccl->version()));
  say(answer, "library", nccl->path());
  std::uint32_t count = options.count;
  if (count == 0) {
    const std::string line = read_line();
    if (line.empty()) return 0;  // the agent led no round
    const auto read = launcher::read_id_count(line);
    if (!read) return say(answer, "problem", read.error().text), failed_exit_code;
    count = *read;
  }
  for (std::uint32_t number = 0; number < count; ++number) {
    const auto id = nccl->make_id(problem);
    if (!id) return say(answer, "problem", problem), failed_exit_code;
    if (number == 0) say(answer, "address", worker::address_of(*id));
    say(answer, "id", worker::nccl_id_text(*id));
  }
  std::fputs("end\n", answer);
  std::fflush(answer);
  while (!read_line().empty()) {
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // A batch system sends these signals for the training script to every process of the job.
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGUSR2, SIG_IGN);
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
  return serve(options, environment, take_standard_output());
}
