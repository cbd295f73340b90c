// Copies that bypass the processor's caches, for large copies that are not read soon. An ordinary
// store first reads the memory that it is about to overwrite, and the C library streams only copies
// that exceed most of the cache.
//
// Thread rule: any thread. On processors without such stores it is memcpy.
#pragma once

#include <string_view>

namespace ddprun::worker {

// The ranges must not overlap. After it returns, another thread that synchronises may read the
// copy.
void streaming_copy(char* to, std::string_view from);

}  // namespace ddprun::worker
