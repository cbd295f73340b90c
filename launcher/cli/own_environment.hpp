// The Python environment where a program is installed: pip, uv and conda put programs beside an
// environment's Python.
//
// Thread rule: any thread; reads the file system.
#pragma once

#include <string>

namespace ddprun::launcher {

// The Python beside the path by which a program was executed (AT_EXECFN), if that is in a venv or a
// conda environment; otherwise empty. Links are not followed: tools that give each program an
// environment of its own link to it from the user's folder of programs, and scripts do not belong
// in that environment.
std::string python_beside(const std::string& executed_as);

// The same for this process.
std::string python_beside_us();

}  // namespace ddprun::launcher
