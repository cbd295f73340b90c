// The frame of a program: an uncaught error, such as a lost peer, becomes one line on standard
// error and exit status 1. Without it each survivor of a dead peer would abort with a core dump and
// without saying which rank it was.
//
//   int main() {
//     return ddprun::worker::run([] { ... });
//   }
//
//   int main() {
//     return ddprun::worker::run([] { ... });
//   }
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

namespace ddprun::worker {

// An error's text for a person, without the source location and C++ stack trace that LibTorch
// appends to its errors.
std::string one_line(std::string text);

// Returns the exit status that `work` returns, or 1 if it throws. The error line starts with
// `name`, by default the program's name.
int run_to_status(const std::function<int()>& work, const char* name = nullptr);

template <std::invocable Work>
int run(Work&& work) {
  if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
    return run_to_status([&] {
      std::forward<Work>(work)();
      return 0;
    });
  } else {
    return run_to_status(std::forward<Work>(work));
  }
}

}  // namespace ddprun::worker
