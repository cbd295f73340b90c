#include "examples/common/program.hpp"

#include "worker/freed_memory.hpp"
#include "worker/run.hpp"

#include <cstdio>

namespace examples {

int run_program(const char* name, const std::function<int()>& run) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  ddprun::worker::keep_freed_memory();
  return ddprun::worker::run_to_status(run, name);
}

}  // namespace examples
