#include "worker/survive.hpp"

#include "worker/process_group_error.hpp"
#include "worker/round_link.hpp"
#include "worker/run.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

namespace ddprun::worker {
namespace {

std::optional<std::string> own_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

void change_environment(const environment_changes& changes) {
  for (const auto& each : changes) {
    const auto end = each.find('=');
    if (end == std::string::npos) {
      ::unsetenv(each.c_str());
    } else {
      ::setenv(each.substr(0, end).c_str(), each.substr(end + 1).c_str(), 1);
    }
  }
}

// Runs one round. Returns none if it ended well, otherwise the reason why this process leaves it.
// Rethrows an error with which the round cannot be left.
std::optional<std::string> end_of_round(round_link& link, const std::function<void()>& train) {
  try {
    train();
    return std::nullopt;
  } catch (const process_group_error& error) {
    if (!link.may_leave(link.patience())) throw;
    return error.what();
  } catch (const std::exception& error) {
    if (!link.may_leave(std::chrono::milliseconds(0))) throw;
    return error.what();
  }
}

}  // namespace

void survive_rounds(const std::function<void()>& train) {
  const auto link = round_link::open(own_variable);
  if (!link) return train();
  while (auto why = end_of_round(*link, train)) {
    std::fflush(stdout);  // keeps the order of the program's own output and this line
    std::fprintf(stderr, "%s: this worker leaves its round and lives on: %s\n",
                 program_invocation_short_name, one_line(*why).c_str());
    const auto changes = link->next_round();
    if (!changes) throw std::runtime_error("no other round came: " + *why);
    change_environment(*changes);
    link->begin(own_variable);
  }
}

}  // namespace ddprun::worker
