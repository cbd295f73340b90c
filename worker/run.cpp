#include "worker/run.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>

namespace ddprun::worker {
namespace {

void tell(const char* name, const std::string& text) {
  std::fflush(stdout);  // keeps the order of the program's own output and this line
  std::fprintf(stderr, "%s: %s\n", name != nullptr ? name : program_invocation_short_name,
               text.c_str());
}

}  // namespace

std::string one_line(std::string text) {
  text = text.substr(0, text.find("\nException raised from "));
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int run_to_status(const std::function<int()>& work, const char* name) {
  try {
    return work();
  } catch (const std::exception& error) {
    tell(name, one_line(error.what()));
  } catch (...) {
    tell(name, "ended by an exception that is not a std::exception");
  }
  return 1;
}

}  // namespace ddprun::worker
