// A training step allocates and frees the same tensors again and again. glibc gives large blocks
// back to the kernel each time, which then has to clear every page anew: a third of the time of a
// small ResNet's step on the CPU.
#pragma once

namespace ddprun::worker {

// From here on memory that this process frees stays with it, for what it allocates next: it shows
// the most that it ever had. Affects the whole process, so it is for a program to call, once, at
// its start. Nothing happens where MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ or GLIBC_TUNABLES
// says what the user wants, or where the C library is not glibc. (Source: mallopt(3).)
void keep_freed_memory();

}  // namespace ddprun::worker
