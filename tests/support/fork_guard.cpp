// Preloaded into ddprun (LD_PRELOAD): ends a child that uses the heap between fork and exec.
//
// Another thread may hold the heap's lock at the time of the fork, and the child's copy of it is
// then never released. glibc's malloc repairs that in the child, but a sanitizer's, or another
// preloaded one, does not, and the child hangs forever.
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void __libc_free(void*);
}

namespace {

pid_t owner = 0;  // the process of this image; 0 in programs other than ddprun

template <std::size_t size>
void say(const char (&text)[size]) {
  [[maybe_unused]] const auto written = ::write(2, text, size - 1);
}

// The guardian may use the heap: it is forked while there is one thread, and has another name.
bool is_named_as_we_are() {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  return std::strcmp(name, "ddprun") == 0;
}

void look() {
  if (owner == 0 || ::getpid() == owner || !is_named_as_we_are()) return;
  owner = 0;
  say("fork_guard: a forked child used the heap\n");
  ::abort();
}

__attribute__((constructor)) void begin() {
  if (!is_named_as_we_are()) return;
  owner = ::getpid();
  say("fork_guard: watching\n");
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
  look();
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  look();
  return __libc_calloc(count, size);
}

void* realloc(void* block, std::size_t size) {
  look();
  return __libc_realloc(block, size);
}

void free(void* block) {
  if (block != nullptr) look();
  __libc_free(block);
}
}
