#include "examples/common/program.hpp"

#include "worker/freed_memory.hpp"

#include <c10/util/Exception.h>

#include <cstdio>
#include <exception>

namespace examples {

int run_program(const char* name, const std::function<int()>& run) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  ddprun::worker::keep_freed_memory();
  try {
    return run();
  } catch (const c10::Error& error) {  // its what() is LibTorch's stack too
    std::fprintf(stderr, "%s: %s\n", name, error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
  }
  return 1;
}

}  // namespace examples
