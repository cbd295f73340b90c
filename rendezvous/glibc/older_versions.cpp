// Functions of glibc in the versions that they have had since its early days. A program that is
// linked on a current system asks for the newest version of each function, and so does not start on
// older ones, even if only the version's name is new: in glibc 2.34 libpthread and libdl became
// part of libc, and each of their functions got a new version.
//
// Each function below is what the program and its static libraries call by that name. It jumps to
// the old version, with all arguments unchanged. On glibc 2.28 to 2.33 libpthread.so.0 and
// libdl.so.2 have that version; .cmake/OldGlibc.cmake makes the program load them.
//
// If the programs ask for more than glibc 2.28 has, tests/cluster/test_old_glibc.py fails and names
// the function. It then needs a line here or, if 2.28 has no such function, one in
// newer_functions.cpp.
#if defined(__x86_64__)
#define DDPRUN_VERSION(x86_64) "GLIBC_" x86_64
#define DDPRUN_GO_ON(name) "endbr64\njmp *ddprun_old_" #name "@GOTPCREL(%rip)\n"
#elif defined(__aarch64__)
#define DDPRUN_VERSION(x86_64) "GLIBC_2.17"
#define DDPRUN_GO_ON(name)                                                                    \
  "hint #34\nadrp x16, :got:ddprun_old_" #name "\nldr x16, [x16, :got_lo12:ddprun_old_" #name \
  "]\nbr x16\n"
#else
#error "no old versions are known for this processor: configure with -DDDPRUN_OLD_GLIBC=OFF"
#endif

// The versions on x86-64; on aarch64 all old functions have that of its first glibc.
#define DDPRUN_OLD(name, version)                                                                 \
  __asm__(".symver ddprun_old_" #name ", " #name "@" DDPRUN_VERSION(                              \
      version) "\n"                                                                               \
               ".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name   \
               ":\n.cfi_startproc\n" DDPRUN_GO_ON(name) ".cfi_endproc\n.size " #name ", .-" #name \
                                                        "\n")

// In libm the newest versions are of 2.29, because they no longer set errno through matherr().
DDPRUN_OLD(exp, "2.2.5");
DDPRUN_OLD(log, "2.2.5");
DDPRUN_OLD(pow, "2.2.5");

DDPRUN_OLD(dladdr, "2.2.5");
DDPRUN_OLD(dlclose, "2.2.5");
DDPRUN_OLD(dlerror, "2.2.5");
DDPRUN_OLD(dlopen, "2.2.5");
DDPRUN_OLD(dlsym, "2.2.5");

DDPRUN_OLD(__pthread_key_create, "2.2.5");
DDPRUN_OLD(pthread_condattr_setclock, "2.3.3");
DDPRUN_OLD(pthread_create, "2.2.5");
DDPRUN_OLD(pthread_detach, "2.2.5");
DDPRUN_OLD(pthread_getspecific, "2.2.5");
DDPRUN_OLD(pthread_join, "2.2.5");
DDPRUN_OLD(pthread_key_create, "2.2.5");
DDPRUN_OLD(pthread_key_delete, "2.2.5");
DDPRUN_OLD(pthread_mutex_trylock, "2.2.5");
DDPRUN_OLD(pthread_mutexattr_destroy, "2.2.5");
DDPRUN_OLD(pthread_mutexattr_init, "2.2.5");
DDPRUN_OLD(pthread_mutexattr_settype, "2.2.5");
DDPRUN_OLD(pthread_once, "2.2.5");
DDPRUN_OLD(pthread_rwlock_rdlock, "2.2.5");
DDPRUN_OLD(pthread_rwlock_unlock, "2.2.5");
DDPRUN_OLD(pthread_rwlock_wrlock, "2.2.5");
DDPRUN_OLD(pthread_setname_np, "2.12");
DDPRUN_OLD(pthread_setspecific, "2.2.5");
DDPRUN_OLD(pthread_sigmask, "2.2.5");
