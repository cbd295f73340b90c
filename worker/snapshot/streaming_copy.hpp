// Copies that go past the processor's caches, for large copies that nobody reads soon. An ordinary
// store reads first what it is about to write over, and the C library streams only what is greater
// than most of the cache.
//
// Thread rule: any thread. Where the processor has no such stores it is memcpy.
#pragma once

#include <string_view>

namespace ddprun::worker {

// They do not overlap. On return another thread that is told so may read the copy.
void streaming_copy(char* to, std::string_view from);

}  // namespace ddprun::worker
