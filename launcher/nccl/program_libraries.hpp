// Finds the libraries that a program will load at its start, without running it. Its dynamic loader
// (PT_INTERP) is called with --list: as at a start it follows DT_NEEDED, RPATH and RUNPATH of the
// program and its libraries, LD_LIBRARY_PATH and the system's cache, and prints what it would load.
// No code of the program or its libraries is run.
//
// Libraries that a program loads later with dlopen(), or that a script will load, are not found.
//
// Thread rule: any thread. Errors count as "none".
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher {

// The path of the library with that file name, such as "libnccl.so.2". Empty: none. A `program`
// without "/" is looked up in PATH. Blocks for at most 10 s.
std::string library_of_program(const std::string& program, std::string_view library,
                               const environment_map& environment);

// The path of that library in the output of glibc's or musl's loader. Pure.
std::string library_in_list(std::string_view list, std::string_view library);

// The loader named by an ELF file of this machine's class; empty: it is no such file, or is linked
// statically.
std::string loader_of(const std::string& program);

}  // namespace ddprun::launcher
