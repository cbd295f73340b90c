#include "worker/freed_memory.hpp"

#include <cstdlib>
#include <initializer_list>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ddprun::worker {

void keep_freed_memory() {
#ifdef __GLIBC__
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    if (std::getenv(name) != nullptr) return;
  }
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  // Never map a block on its own: freeing it would unmap it.
  mallopt(M_MMAP_MAX, 0);
#endif
}

}  // namespace ddprun::worker
