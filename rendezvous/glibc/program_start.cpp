// How a program starts on any glibc from 2.28 on. From 2.34 on __libc_start_main() runs the
// program's initializers itself, and the compiler's start files pass it no function for that;
// before, a function that was linked into each program ran them. This is that function, and it is
// always passed: newer versions of glibc run it in place of their own code, as for every program
// that was built before 2.34.
#include "rendezvous/glibc/find_object.hpp"

#if defined(__x86_64__)
#define DDPRUN_FIRST_VERSION "GLIBC_2.2.5"
#else
#define DDPRUN_FIRST_VERSION "GLIBC_2.17"
#endif

extern "C" {
using initializer = void (*)(int, char**, char**);
using main_function = int (*)(int, char**, char**);

// By the linker.
extern const initializer __init_array_start[] __attribute__((visibility("hidden")));
extern const initializer __init_array_end[] __attribute__((visibility("hidden")));
void _init();

int ddprun_old_start(main_function main, int argc, char** argv, initializer init, void (*fini)(),
                     void (*loader_fini)(), void* stack_end);
}

__asm__(".symver ddprun_old_start, __libc_start_main@" DDPRUN_FIRST_VERSION);

namespace {

void run_initializers(int argc, char** argv, char** environment) {
  ddprun::glibc::remember_own_program();
  _init();
  for (const initializer* one = __init_array_start; one != __init_array_end; ++one)
    (*one)(argc, argv, environment);
}

}  // namespace

// With every glibc the loader runs what has to be run at the end.
extern "C" __attribute__((visibility("hidden"), used, noreturn)) void __libc_start_main(
    main_function main, int argc, char** argv, initializer, void (*)(), void (*loader_fini)(),
    void* stack_end) {
  ddprun_old_start(main, argc, argv, run_initializers, nullptr, loader_fini, stack_end);
  __builtin_unreachable();
}
