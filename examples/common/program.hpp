// The frame of a program: what goes wrong in it is one line, and status 1.
#pragma once

#include <functional>

namespace examples {

// Standard output is told line by line from here on, as a launcher wants it.
int run_program(const char* name, const std::function<int()>& run);

}  // namespace examples
