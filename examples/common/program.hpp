// The frame of a program: an error becomes one line and status 1.
#pragma once

#include <functional>

namespace examples {

// Makes standard output line-buffered, so that a launcher gets each line at once.
int run_program(const char* name, const std::function<int()>& run);

}  // namespace examples
