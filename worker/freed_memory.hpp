// A training step allocates and frees the same tensors again and again. glibc returns large blocks
// to the kernel each time, and the kernel then has to clear every page again, which takes a third
// of the time of a small ResNet's step on the CPU.
#pragma once

namespace ddprun::worker {

// From this call on, memory that the process frees is kept for its next allocations, so its
// resident size stays at the peak. It affects the whole process: a program should call it once, at
// its start. It does nothing if the user has set MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ or
// GLIBC_TUNABLES, or if the C library is not glibc. (Source: mallopt(3).)
//
// Thread rule: call it before the program starts threads.
void keep_freed_memory();

}  // namespace ddprun::worker
