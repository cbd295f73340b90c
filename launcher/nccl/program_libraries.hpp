// The libraries that a program will load when it starts, found without running it: the dynamic
// loader that it names (PT_INTERP) is asked with --list, which follows DT_NEEDED, RPATH and RUNPATH
// of the program and of all its libraries, LD_LIBRARY_PATH and the system's cache, as at a start,
// and prints what it would load. Nothing of the program or its libraries is run.
//
// What a program loads later, by dlopen(), is not found; nor what a script will load.
//
// Thread rule: any thread. Errors: all count as "none".
#pragma once

#include "rendezvous/base/environment_map.hpp"

#include <string>
#include <string_view>

namespace ddprun::launcher {

// The path of the library of that file name, such as "libnccl.so.2". Empty: none. `program` is
// looked up in PATH where it has no "/". Blocks, for 10 s at most.
std::string library_of_program(const std::string& program, std::string_view library,
                               const environment_map& environment);

// The path behind that name in what the loader of glibc or musl prints. Pure.
std::string library_in_list(std::string_view list, std::string_view library);

// The loader that an ELF file of this machine's kind names; empty where it is none, or is linked
// statically.
std::string loader_of(const std::string& program);

}  // namespace ddprun::launcher
