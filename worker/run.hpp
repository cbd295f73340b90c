// The frame of a program: an error that nobody catches, such as a peer's end, is one line on
// standard error and exit status 1. Without it each survivor of a dead peer aborts, with a core
// dump and no word of which rank it was.
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

// An error's text for a person, without the place that threw and the stack of C++ frames with which
// LibTorch's go on.
std::string one_line(std::string text);

// What `work` returns, for exit(); 1 where it throws. The line begins with `name`: none is the
// program's.
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
