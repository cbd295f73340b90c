// The Python environment that a program is installed in, as pip, uv and conda put programs beside
// an environment's Python.
//
// Thread rule: any thread; reads the file system.
#pragma once

#include <string>

namespace ddprun::launcher {

// The Python beside the path by which a program was executed (AT_EXECFN), where that is in a venv
// or in an environment of conda's; else empty. A link is not followed: a tool that gives each
// program an environment of its own links to it from the person's folder of programs, and scripts
// are not meant for that environment.
std::string python_beside(const std::string& executed_as);

// As above, of this process.
std::string python_beside_us();

}  // namespace ddprun::launcher
